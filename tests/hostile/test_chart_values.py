"""Values that try to break out of the chart's YAML, or to be run as a template: they are data, or are refused."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.errors import BadInput
from console.kube.nested_values import Value, merge_values
from console.launch.helm import InvalidValues
from console.launch.plan_as_text import PlanTexts
from console.launch.recipes import LaunchPlan
from tests.chart.plans import CATALOGUE, offline

BREAKOUTS = {
    "another key": "x\nhostNetwork: true",
    "another key, deep": "x\n              securityContext:\n                privileged: true",
    "another document": 'x\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: "PWNT"}\n---\n',
    "the end of the stream": "x\n...\nkind: Pod",
    "a double quote": 'x"\nprivileged: true\n"',
    "a double quote and a comma": 'x", "privileged": true, "y": "',
    "a quote": "x'\nprivileged: true\n'",
    "a backslash before the quote": 'x\\"\nprivileged: true',
    "a backslash at the end": "x\\",
    "a comment": "x # privileged: false",
    "a mapping": "x: y",
    "a mapping in braces": "{privileged: true}",
    "a list": "[a, b]",
    "an item": "- x",
    "an anchor": "&a x",
    "an alias": "*a",
    "a tag": "!!python/object/apply:os.system [id]",
    "a merge": "<<: *a",
    "a block": "|\n  x\n privileged: true",
    "a folded block": ">-\n\n  x",
    "a template": '{{ .Release.Name }}{{ fail "PWNT" }}',
    "a template that looks up": '{{ lookup "v1" "Secret" "kube-system" "x" | toYaml }}',
    "the end of an action": '"}}{{ printf "PWNT" }}{{"',
    "a comment of a template": "{{/* x */}}",
    "line ends of Unicode": "x\u2028privileged: true\u0085privileged: true\r\nprivileged: true\u2029",
    "tabs and control characters": "\tx\x07\x08\x1b\x7f\x9f\ufeff",
}
HARMLESS = "harmless"
TEXTS = PlanTexts(CATALOGUE, offline().render)


def texts(text: str) -> dict[str, Value]:
    """Every value of the recipe own-script that may be any text; `owner` may have no control characters."""
    script: Value = {"text": text, "before": text, "arguments": ["--first", text], "config": text}
    return {
        "env": {"PLANTED": text},
        "placement": {"tolerations": [{"key": text, "operator": "Equal", "value": text, "effect": "NoSchedule"}]},
        "recipe": {"script": script},
        **({"owner": text} if text.isprintable() else {"owner": HARMLESS}),
    }


SHAPED = (
    "queue", "image", "serviceAccount", "priorityClass", "topology.level", "placement.accelerator",
    "network.nccl.debug", "network.nccl.tuner", "network.nccl.socketInterfaces", "storage.shm", "storage.ssd",
    "storage.logs", "storage.nfs.size", "storage.nfs.claim", "storage.nfs.server", "storage.nfs.share",
    "storage.lustre.filesystem", "recipe.workspace", "recipe.script.configFile", "ssh.publicKey",
)  # fmt: skip
"""Values with a form of their own."""


def nested(path: str, value: Value) -> dict[str, Value]:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


def swapped(node: Any, old: str, new: str) -> Any:
    """The data with one text for another, wherever it stands alone; keys stay."""
    if isinstance(node, dict):
        return {key: swapped(value, old, new) for key, value in node.items()}
    if isinstance(node, list):
        return [swapped(each, old, new) for each in node]
    return new if node == old else node


async def rendered(recipe: str, values: dict[str, Value]) -> list[Any]:
    """All objects as data, but for the keys that are made anew each time."""
    plan = LaunchPlan(recipe, "anna", "team", values)
    made = await offline()._render_manifests(plan)
    objects = [each for text in made for each in yaml.safe_load_all(text)]
    for each in objects:
        if each["kind"] == "Secret":
            each["data"] = sorted(each["data"])
    return objects


@pytest.mark.slow(reason="renders the whole chart by Helm again and again", fast_rows=5)
@pytest.mark.parametrize("kind", BREAKOUTS)
async def test_a_text_is_data_and_nothing_else(kind: str) -> None:
    text = BREAKOUTS[kind]
    found, usual = await rendered("own-script", texts(text)), await rendered("own-script", texts(HARMLESS))
    assert found != usual
    if not text.isprintable():
        assert swapped(found, text, HARMLESS) == usual
        return
    for each in (found, usual):  # of the owner the pods' label has what a label may have
        for meta in labelled(each):
            del meta["a4.console/owner"]
    assert swapped(found, text, HARMLESS) == usual


def labelled(objects: list[Any]) -> list[dict[str, str]]:
    """Labels of the pods."""
    (jobset,) = (each for each in objects if each["kind"] == "JobSet")
    (job,) = jobset["spec"]["replicatedJobs"]
    found = [jobset["metadata"]["labels"], job["template"]["spec"]["template"]["metadata"]["labels"]]
    return [each for each in found if "a4.console/owner" in each]


@pytest.mark.parametrize("kind", BREAKOUTS)
async def test_a_value_of_a_form_is_refused_by_the_console_and_by_helm(kind: str) -> None:
    """Helm alone too: the chart may be installed without the console."""
    values: dict[str, Value] = {}
    for path in SHAPED:
        values = merge_values(values, nested(path, BREAKOUTS[kind]))
    plan = LaunchPlan("own-script", "anna", "team", values)
    with pytest.raises(BadInput):
        CATALOGUE.require_valid(plan)
    assert {each.path for each in CATALOGUE.plan_problems(plan)} >= set(SHAPED)
    with pytest.raises(InvalidValues) as refused:
        await offline().helm.render(CATALOGUE.chart, CATALOGUE.chart_values(plan), name="anna", namespace="team")
    named = tuple(each.path for each in refused.value.problems)  # Helm names only the group of some
    assert [path for path in SHAPED if not path.startswith(named)] == []


@pytest.mark.parametrize("kind", BREAKOUTS)
async def test_a_release_has_no_such_name(kind: str) -> None:
    plan = LaunchPlan("own-script", BREAKOUTS[kind], "team", {})
    with pytest.raises(BadInput):
        CATALOGUE.require_valid(plan)


SHELL = {
    "a command": "$(touch PWNT)",
    "a command in backquotes": "`touch PWNT`",
    "the end of a quote": "'; touch PWNT; '",
    "the end of two quotes": '"; touch PWNT; "',
    "the end of a line": "x\ntouch PWNT\n",
    "the line goes on": "x\\\ntouch PWNT",
    "a variable": "${IFS}$HOME",
    "output": "x > PWNT & touch PWNT | touch PWNT",
    "history": "!touch !! ^x^y",
    "a comment": "x # touch PWNT",
    "what Helm takes for grammar": "a,b=c.d[0]={e}",
}


@pytest.mark.parametrize("kind", [*BREAKOUTS, *SHELL])
def test_a_shell_runs_nothing_of_the_helm_command(kind: str, tmp_path: Path) -> None:
    """The command that is shown for pasting: `helm` gets each value as one word, and nothing else is run."""
    text = {**BREAKOUTS, **SHELL}[kind]
    helm = tmp_path / "helm"
    helm.write_text('#!/bin/sh\nfor each in "$@"; do printf "%s\\0" "$each"; done > "$(dirname "$0")/said"\n')
    helm.chmod(0o700)
    command = TEXTS.helm_command(LaunchPlan("own-script", "anna", "team", texts(text)))
    for line in (command.inline, command.with_file):
        done = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": "home"},
            capture_output=True, check=False, timeout=30,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        said = (tmp_path / "said").read_text().split("\0")
        assert said[:3] == ["install", "anna", str(CATALOGUE.chart)]
        assert "--namespace" in said
        assert {path.name for path in tmp_path.iterdir()} == {"helm", "said"}
    assert yaml.safe_load(command.file_text)["env"] == {"PLANTED": text}
