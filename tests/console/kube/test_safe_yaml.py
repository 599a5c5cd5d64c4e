"""YAML of others: what is too deep, too much, or not what it says it is, ends in words and never ends the process."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
import yaml

from console.kube.safe_yaml import load_usual, load_yaml

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


KUBECONFIG = """apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUU+/==
    server: https://203.0.113.3
  name: gke_p_us-central1_c
# whose it is
contexts:
- context:
    cluster: "gke_p_us-central1_c"
    user: me
  name: gke_p_us-central1_c
current-context: gke_p_us-central1_c
preferences: {}
users:
- name: me
  user:
    exec:
      args:
      - --use_application_default_credentials
      - 'get token'
      command: /usr/bin/gke-gcloud-auth-plugin
      env: null
      installHint: Install gke-gcloud-auth-plugin for use with kubectl by following
        https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl#install_plugin
      provideClusterInfo: true
      timeout: 30
"""
PIECES = (
    *" \n-#'\":?%@`|>=~.,", "- ", ": ", " #", ":\n", "---\n", "&a", "*a", "!x", "{}", "[]", "<<", "null", "yes", "No",
    "0x1", "1.5", "012", "1_000", "2001-01-01", "- a: b\n", "k: v\n", " k:\n", "\t", "\\n", "\u00e9", "\u2028",
)  # fmt: skip


def test_a_usual_file_is_read_without_a_parser_of_yaml_and_as_that_would() -> None:
    assert load_usual(KUBECONFIG) == yaml.safe_load(KUBECONFIG)
    random.seed(7)
    usual = 0
    for _ in range(400):
        text = KUBECONFIG
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(text))
            text = text[:at] + random.choice(PIECES) + text[at + random.choice((0, 0, 1, 4)) :]
        if (found := load_usual(text)) is not None:
            usual += 1
            assert repr(found) == repr(load_yaml(text)), text
    assert usual > 80


@pytest.mark.parametrize("text", [*COSTLY.values(), "", "a: yes\n", "a: 1e3\n", "a: &b c\n", "- a\n", "a: b\n c: d\n"])
def test_any_other_file_is_left_to_the_parser(text: str) -> None:
    found = load_usual(text)
    assert found is None or found == load_yaml(text)
