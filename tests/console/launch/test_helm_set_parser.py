"""The --set options of Helm: each case of its own parser's tests, more that its parser was asked, and what differs."""

import json
from pathlib import Path
from typing import Any

import pytest

from console.errors import BadInput
from console.launch.helm_command import parse_helm_line
from console.launch.helm_set_parser import MAX_LIST_INDEX, FileValue, SetValues

TABLE = Path(__file__).parents[2] / "fixtures/helm_set_options.tsv"
ROWS = [line.split("\t")[:3] for line in TABLE.read_text().splitlines() if not line.startswith("# ")]


@pytest.mark.parametrize(("line", "below", "result"), ROWS, ids=[row[0][:60] for row in ROWS])
def test_options_set_what_helm_sets(line: str, below: str, result: str) -> None:
    option, _, texts = line.partition(" ")
    if result == "refused":
        with pytest.raises(BadInput):
            _set_all(option, texts, below)
    else:
        assert _as_json(_set_all(option, texts, below)) == _as_json(json.loads(result))


def _set_all(option: str, texts: str, below: str) -> dict[str, Any]:
    values = SetValues(json.loads(below or "{}"))
    for text in texts.split(" ; "):
        values.add(option, text)
    return values.root


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=lambda file: f"FILE:{file}")


def test_the_last_place_of_a_list_is_helms() -> None:
    values = SetValues()
    values.add("--set", f"a[{MAX_LIST_INDEX}]=1")
    with pytest.raises(BadInput, match=r"--set a\[65537\] counts beyond 65,536 entries"):
        values.add("--set", f"a[{MAX_LIST_INDEX + 1}]=1")


def test_what_holds_an_unknown_variable_is_left_out_and_the_rest_is_set() -> None:
    line = parse_helm_line("helm install r c --set 'a=1',b.c=$X,d={e,$Y} --set-file l=$DIR/run.sh,m=$M", {})
    values = SetValues({"b": {"c": "kept"}})
    for option, word in line.settings:
        values.add(option, word.text, word.unknown_variables)
    assert values.root == {"a": 1, "b": {"c": "kept"}, "l": FileValue("$DIR/run.sh")}
    assert values.left_out == [(("b", "c"), ("$X",)), (("d",), ("$Y",)), (("m",), ("$M",))]
