"""Which changes of a host key the API's word explains."""

from __future__ import annotations

import pytest

from console.attach.ssh.config import PodKeys, SshHostEntry
from console.attach.ssh.identities import ApiHostKeys, PodFacts, fingerprint, verify_host_keys
from console.errors import HostKeyChanged, NotFound

A, B, C = (
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHGa0wvgvw+Zw1XSjDVyvBM4M7MDx1dyZnPHm8P1vQ{end}" for end in ("6R", "7R", "8R")
)


def facts(pod: str = "pod-1", jobset: str = "job-1", restarts: int = 0) -> PodFacts:
    return PodFacts(pod, jobset, restarts, "", "")


def known(*, release: tuple[str, ...] = (), pods: dict[str, PodKeys] | None = None) -> SshHostEntry:
    return SshHostEntry(name="a4-t", context="c", namespace="n", job="t", jobset_uid="job-1", release_keys=release,
                 pods=pods or {})  # fmt: skip


def test_the_first_word_is_believed() -> None:
    made = verify_host_keys(known(), 0, ApiHostKeys(facts(), served=(A,)))
    assert made.known_hosts_lines() == [f"a4-t {A}"]
    assert made.pods["0"].uid == "pod-1"


def test_the_release_speaks_for_all_its_pods() -> None:
    made = verify_host_keys(known(), 3, ApiHostKeys(facts(), release=(A,)))
    assert made.known_hosts_lines() == [f"a4-t {A}"]
    assert made.pods["3"].keys == ()


def test_a_new_pod_may_have_a_new_key() -> None:
    before = known(pods={"0": PodKeys("pod-1", 0, (A,)), "1": PodKeys("pod-9", 0, (C,))})
    made = verify_host_keys(before, 0, ApiHostKeys(facts("pod-2"), served=(B,)))
    assert made.known_hosts_lines() == [f"a4-t {B}", f"a4-t {C}"], "the other rank keeps its own"


def test_another_run_of_the_container_may_too() -> None:
    before = known(pods={"0": PodKeys("pod-1", 0, (A,))})
    assert verify_host_keys(before, 0, ApiHostKeys(facts(restarts=1), kept=(B,))).known_hosts_lines() == [f"a4-t {B}"]


def test_the_same_pod_may_not() -> None:
    before = known(pods={"0": PodKeys("pod-1", 0, (A,))})
    with pytest.raises(HostKeyChanged) as told:
        verify_host_keys(before, 0, ApiHostKeys(facts(), served=(B,)))
    assert fingerprint(A) in told.value.message
    assert fingerprint(B) in told.value.message
    assert "its pod is the same" in told.value.message


def test_a_release_keeps_its_key_over_new_pods() -> None:
    before = known(release=(A,), pods={"0": PodKeys("pod-1")})
    with pytest.raises(HostKeyChanged, match="the release is the same"):
        verify_host_keys(before, 0, ApiHostKeys(facts("pod-2"), release=(B,)))
    with pytest.raises(HostKeyChanged, match="the release is the same"):
        verify_host_keys(before, 0, ApiHostKeys(facts("pod-2"), served=(B,)))
    assert verify_host_keys(before, 0, ApiHostKeys(facts("pod-2"), served=(A,))).known_hosts_lines() == [f"a4-t {A}"]


def test_another_job_of_the_same_name_begins_anew() -> None:
    before = known(release=(A,), pods={"0": PodKeys("pod-1"), "5": PodKeys("pod-5", 0, (C,))})
    made = verify_host_keys(before, 0, ApiHostKeys(facts("pod-7", jobset="job-2"), release=(B,)))
    assert made.known_hosts_lines() == [f"a4-t {B}"]
    assert list(made.pods) == ["0"]


def test_a_pod_that_shows_another_key_than_its_release_is_refused() -> None:
    with pytest.raises(HostKeyChanged, match="its release has no other"):
        verify_host_keys(known(), 0, ApiHostKeys(facts(), release=(A,), served=(B,)))


def test_no_key_at_all_is_told() -> None:
    with pytest.raises(NotFound, match="cannot be read"):
        verify_host_keys(known(), 0, ApiHostKeys(facts()))
