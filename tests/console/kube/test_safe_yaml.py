"""YAML of others: what is too deep, or not what it says it is, ends in words and never ends the process."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from console.kube.safe_yaml import load_yaml

DEEP = {
    "lists": "[" * 100_000,
    "maps": "{a: " * 50_000,
    "lists on a line": "- " * 100_000,
    "keys on a line": "? " * 100_000,
    "lists by indentation": "\n".join(" " * depth + "- " for depth in range(3000)),
    "maps by indentation": "\n".join(" " * depth + "a:" for depth in range(3000)),
    "maps and lists": "\n".join(" " * (depth // 2) + ("- " if depth % 2 else "a:") for depth in range(6000)),
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_too_deep_is_refused_in_a_process_that_lives_on(text: str) -> None:
    code = "import sys, yaml\nfrom console.kube.safe_yaml import load_yaml\n"
    code += "try:\n    load_yaml(sys.stdin.read())\nexcept yaml.YAMLError:\n    print('refused')\n"
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr[-300:]


def test_what_is_not_too_deep_is_read() -> None:
    assert load_yaml("[" * 300 + "]" * 300)
    assert load_yaml("a: [1, {b: c}]") == {"a": [1, {"b": "c"}]}
    many = "[" + ", ".join("[1]" for _ in range(5000)) + "]"
    assert len(load_yaml(many)) == 5000


@pytest.mark.parametrize("text", ["2026-13-01", "!!int x", "!!bool x"])
def test_a_value_that_is_not_what_it_says_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)
