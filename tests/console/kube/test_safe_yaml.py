"""YAML of others: what is too deep, too much, or not what it says it is, ends in words and never ends the process."""

import subprocess
import sys
from contextlib import suppress

import pytest
import yaml
from hypothesis import given, strategies as st

from console.kube.safe_yaml import NotPlainError, load_yaml, parse_plain_yaml

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


OF_GCLOUD = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==
    server: https://34.91.1.2
  name: gke_proj_europe-west4_a4
current-context: gke_proj_europe-west4_a4
preferences: {}
users:
- name: gke_proj_europe-west4_a4
  user:
    exec:
      args: null
      command: gke-gcloud-auth-plugin
      installHint: Install gke-gcloud-auth-plugin for use with kubectl by following
        https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl#install_plugin
      provideClusterInfo: true
# that of another cloud
- name: arn:aws:eks:us-west-2:1:cluster/x
  user:
    exec:
      args:
      - --region
      - "us-west-2"
"""
PIECES = (
    "a·b-c·x: y·k:·- ·-· ·  ·    ·\n·\n- ·\n  ·\n    ·: ·:·a b·'q'·\"d\"·# c· #·https://h:1/p·--region·1·-1·.5·~·|·>·/p·"
    "true·null·Null·Off·on·&a·*a·<<·=·!t·? ·---·...·%·[]·{}·[a]·{a: b}·'it''s'·\"a\\n\"·\t·_·e1"
)
WORDS = ["a", "b c", "https://h/p", "yes", "1", "", "- x", "a: b", "x " * 60]
LEAVES = st.none() | st.booleans() | st.sampled_from(WORDS)
TREES = st.recursive(LEAVES, lambda inside: st.lists(inside) | st.dictionaries(st.sampled_from("abcd"), inside))


def test_a_kubeconfig_of_gcloud_is_read_without_pyyaml() -> None:
    assert parse_plain_yaml(OF_GCLOUD) == yaml.safe_load(OF_GCLOUD)


@given(st.lists(st.sampled_from(PIECES.split("·")), max_size=12).map("".join) | TREES.map(yaml.safe_dump))
def test_a_text_that_is_read_without_pyyaml_has_the_same_data(text: str) -> None:
    with suppress(NotPlainError):
        assert repr(parse_plain_yaml(text)) == repr(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text", ["", "a", "a: 1", "a: yes", "a: b: c", "a: |\n  b", "a: b\n c: d", "- a\n b: c", "ä: b"]
)
def test_a_text_that_may_mean_something_else_is_left_to_pyyaml(text: str) -> None:
    with pytest.raises(NotPlainError):
        parse_plain_yaml(text)
