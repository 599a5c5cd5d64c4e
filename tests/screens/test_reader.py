"""Whoever may only look: what a command may not do or see is said, with exit code 3, and nothing is claimed instead."""

import pytest

from practice.objects.resources import JOBSETS
from screens.__main__ import main
from tests.screens.test_read_only import LOOKED, REFUSED, folders, practised

__all__ = ["folders"]

OF_GOOGLE = {
    "resize", "images", "build", "builds", "build-cancel", "clusters", "store-logs", "report", "preflight", "buckets",
    "nodepools", "operations",
}  # fmt: skip
BEFORE_THAT = {"shell": "needs a terminal", "rm": "is not deleted: pods of the practice cluster"}
"""What is refused before the API server is asked."""
SEEN = {
    "pools", "nodes", "jobs -A", "pods -A", "history", "logs llama-70b 0 --tail 5", "nccl nccl-0412",
    "training llama-70b", "stop nccl-0412 --dry-run", "why llama-70b",
}  # fmt: skip
HIDDEN = {
    "why eval-32": "no permission to list workloads",
    "queues": "Could not list clusterqueues", "workloads": "Could not list workloads",
    "launch nccl-all-reduce": "No queue was named (--queue NAME, or none to bypass Kueue), and which ones default has "
    "is not known: Could not list localqueues",
    "releases": "releases could not be listed",
}  # fmt: skip
"""What this account may not see."""


@pytest.mark.slow(reason="many keys in a whole app")
def test_a_reader_is_reported_what_is_refused_and_what_cannot_be_seen(capfd: pytest.CaptureFixture[str]) -> None:
    lines = {line for line in (*REFUSED, *LOOKED) if line.split()[0] not in OF_GOOGLE}
    wrong: dict[str, tuple[int, str]] = {}
    with practised() as (cluster, _):
        jobs = {each["metadata"]["uid"] for each in cluster.storage.list(JOBSETS)}
        for line in sorted(lines | SEEN | set(HIDDEN)):
            first, *words = line.split()
            if first == "launch" and line not in HIDDEN:
                words.append("--no-preflight")  # else it is refused before, as no registry answers here
            code = main([first, "--kubeconfig", str(cluster.folder / "reader.kubeconfig"), *words])
            captured = capfd.readouterr()
            said = captured.out + captured.err
            if line in SEEN:
                right = code == 0 and bool(captured.out)
            elif first in BEFORE_THAT:
                right = code == 2 and BEFORE_THAT[first] in said
            else:
                right = code == 3 and HIDDEN.get(line, "practice-reader") in said
            if not right or "has not created" in said:
                wrong[line] = code, said
        assert jobs == {each["metadata"]["uid"] for each in cluster.storage.list(JOBSETS)}
    assert len(lines) > 50
    assert wrong == {}
