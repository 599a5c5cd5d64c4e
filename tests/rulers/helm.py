"""Plays a case of Helm's parser of `--set` with ours, and says where the answer differs."""

from __future__ import annotations

from typing import Any

from console.errors import BadInput
from console.launch.set_values import SetValues

_OPTIONS = {"TestParseSet": "--set", "TestParseSet/string": "--set-string", "TestParseSetNestedLevels": "--set"}


def difference(case: dict[str, Any]) -> str:
    """Empty if ours gives the same values, or refuses what Helm refuses."""
    row = case["case"]
    values = SetValues({})
    try:
        values.add(_OPTIONS.get(case["suite"], "--set-literal"), row["str"])
    except BadInput as error:
        return "" if row["err"] else f"refused here ({error}), Helm takes it"
    if row["err"]:
        return f"{values.root} here, Helm refuses it"
    want = row["expect"] or {}
    return "" if values.root == want else f"{want} wanted, {values.root} here"
