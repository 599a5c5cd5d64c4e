"""Commands in sentences, with the namespace that they need."""

import pytest

from console.kube.find_job import with_namespace_option


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Why: a4 why train", "Why: a4 -n team why train"),
        ("a4 hang job shows it; a4 stop job frees 16",
         "a4 -n team hang job shows it; a4 -n team stop job frees 16"),
        ("Quick: a4 nccl-quick train", "Quick: a4 -n team nccl-quick train"),
        ("`a4 jobs -A` lists all there are.", "`a4 jobs -A` lists all there are."),
        ("a4 recipes lists them.", "a4 recipes lists them."),
        ("Queue a4 is stopped; a4 stops nothing", "Queue a4 is stopped; a4 stops nothing"),
    ],
)  # fmt: skip
def test_what_looks_in_a_namespace_names_it(text: str, words: str) -> None:
    assert with_namespace_option(text, "team") == words
    assert with_namespace_option(text, "") == text
