"""Plays cases of Helm's parser of `--set` and of its merging of values with ours, and says where the answer differs."""

from collections.abc import Mapping
from typing import Any

from console.errors import BadInput
from console.kube.nested_values import get_path, merge_values, overlay_values
from console.launch.helm_set_parser import SET_OPTIONS, SetValues

_PARSED = {"TestParseSet": "--set", "TestParseSet/string": "--set-string", "TestParseSetNestedLevels": "--set",
           "TestParseLiteral": "--set-literal", "TestParseLiteralNestedLevels": "--set-literal"}  # fmt: skip
_FIELDS = {"jSONValues": "--set-json", "values": "--set", "stringValues": "--set-string",
           "fileValues": "--set-file", "literalValues": "--set-literal"}  # fmt: skip
_TEMPLATES = {"TestCoalesceValues": False, "TestMergeValues": True}  # and whether nulls are kept
Tree = dict[str, Any]


def difference(case: dict[str, Any]) -> str:
    """Empty if ours gives the same values, or refuses what Helm refuses."""
    row, suite = case["case"], case["suite"]
    if suite in _PARSED:
        return _set([(_PARSED[suite], row["str"])], row["expect"] or {}, bool(row["err"]))
    if suite == "TestMergeValuesCLI":
        given = [(option, text) for field, option in _FIELDS.items() for text in row["opts"][field] or ()]
        return _set(sorted(given, key=lambda each: SET_OPTIONS.index(each[0])), row["expected"] or {}, row["wantErr"])
    if suite in _TEMPLATES:
        found = get_path(_of_chart(case["c"], case["valsCopy"], _TEMPLATES[suite]), row["tpl"].strip("{}."))
        shown = "<no value>" if found is None else str(found).lower() if isinstance(found, bool) else found
        return "" if shown == row["expect"] else f"{row['expect']} wanted, {shown} here"
    want, got = case["answer"][0], Tree()
    if suite == "MergeMaps":
        got = overlay_values(row["a"] or {}, row["b"] or {})
    elif suite == "coalesceTablesFullKey":
        got = _merged(row["src"] or {}, row["dst"] or {}, row["merge"])
    else:
        got = _of_chart(row["ch"], row["dest"] or {}, row["merge"])
    return "" if got == want else f"{want} wanted, {got} here"


def _set(options: list[tuple[str, str]], want: Tree, refused: bool) -> str:
    values = SetValues({})
    try:
        for option, text in options:
            values.add(option, text)
    except BadInput as error:
        return "" if refused else f"refused here ({error}), Helm takes it"
    if refused:
        return f"{values.root} here, Helm refuses it"
    return "" if values.root == want else f"{want} wanted, {values.root} here"


def _merged(below: Mapping[str, Any], above: Mapping[str, Any], keep: bool) -> Tree:
    return (overlay_values if keep else merge_values)(below, above)


def _of_chart(chart: Tree, given: Tree, keep: bool) -> Tree:
    """The values of a chart and of those within it, whose part is put together by its name and with the globals."""
    within = chart["dependencies"] or ()
    names = [each["metadata"]["name"] for each in within]
    own = chart["values"] or {}
    values = _merged({name: each for name, each in own.items() if name not in names}, given, keep)
    for name, each in zip(names, within, strict=True):
        part: Tree = overlay_values(own.get(name) or {}, given.get(name) or {})
        part["global"] = overlay_values(part.get("global") or {}, values.get("global") or {})
        values[name] = _of_chart(each, part, keep)
    return values
