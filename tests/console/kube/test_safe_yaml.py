"""YAML of others: what is too deep, too much, or not what it says it is, ends in words and never ends the process."""

import subprocess
import sys

import pytest

from console.kube.safe_yaml import load_yaml

REFERENCES = "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9 * (n > 0)}]\n" for n in range(12))
COSTLY = {
    "lists": "[" * 100_000,
    "maps": "{a: " * 50_000,
    "lists on a line": "- " * 100_000,
    "keys on a line": "? " * 100_000,
    "lists by indentation": "\n".join(" " * depth + "- " for depth in range(3000)),
    "maps by indentation": "\n".join(" " * depth + "a:" for depth in range(3000)),
    "maps without end": "[" + "{a: b}," * 1_200_000 + "]",
    "references": REFERENCES,
    "merges": REFERENCES.replace("[", "{<<: [").replace("]", "], b: c}"),
    "a comment without end": "#" * (17 << 20),
    "maps and lists": "\n".join(" " * (depth // 2) + ("- " if depth % 2 else "a:") for depth in range(6000)),
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_what_costs_too_much_is_refused_in_a_process_that_lives_on_with_one_gib(text: str) -> None:
    code = "import resource, sys, yaml\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
    code += "from console.kube.safe_yaml import load_yaml\n"
    code += "try:\n    load_yaml(sys.stdin.read())\nexcept yaml.YAMLError:\n    print('refused')\n"
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr[-300:]


def test_what_is_not_too_deep_is_read() -> None:
    assert load_yaml("[" * 300 + "]" * 300)
    assert load_yaml("a: [1, {b: c}]") == {"a": [1, {"b": "c"}]}
    many = "[" + ", ".join("[1]" for _ in range(5000)) + "]"
    assert len(load_yaml(many)) == 5000
