"""Which changes of a host key the API's word explains."""

import pytest

from console.attach.ssh.config_and_known_hosts import PodKeys, SshHostEntry
from console.attach.ssh.host_key_check import ApiHostKeys, PodIdentity, verify_host_keys
from console.attach.ssh.identities import fingerprint
from console.errors import ConsoleError, HostKeyChanged, NotFound

A, B, C = (
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHGa0wvgvw+Zw1XSjDVyvBM4M7MDx1dyZnPHm8P1vQ{end}" for end in ("6R", "7R", "8R")
)


def facts(pod: str = "pod-1", jobset: str = "job-1", restarts: int = 0) -> PodIdentity:
    return PodIdentity(pod, jobset, restarts, "", "")


def known(*, release: tuple[str, ...] = (), pods: dict[str, PodKeys] | None = None) -> SshHostEntry:
    return SshHostEntry(name="a4-t", context="c", namespace="n", job="t", jobset_uid="job-1", release_keys=release,
                 pods=pods or {})  # fmt: skip


def test_the_same_pod_may_not() -> None:
    before = known(pods={"0": PodKeys("pod-1", 0, (A,))})
    with pytest.raises(HostKeyChanged) as told:
        verify_host_keys(before, 0, ApiHostKeys(facts(), served=(B,)))
    assert fingerprint(A) in told.value.message
    assert fingerprint(B) in told.value.message
    assert "its pod is the same" in told.value.message


def test_another_job_of_the_same_name_begins_anew() -> None:
    before = known(release=(A,), pods={"0": PodKeys("pod-1"), "5": PodKeys("pod-5", 0, (C,))})
    made = verify_host_keys(before, 0, ApiHostKeys(facts("pod-7", jobset="job-2"), release=(B,)))
    assert made.known_hosts_lines() == [f"a4-t {B}"]
    assert list(made.pods) == ["0"]


ZERO = PodKeys("pod-1", 0, (A,))
OF_RELEASE = known(release=(A,), pods={"0": PodKeys("pod-1")})


@pytest.mark.parametrize(
    ("before", "rank", "answer", "keys"),
    [
        (known(), 0, ApiHostKeys(facts(), served=(A,)), [A]),
        (known(), 3, ApiHostKeys(facts(), release=(A,)), [A]),
        (known(pods={"0": ZERO, "1": PodKeys("pod-9", 0, (C,))}), 0, ApiHostKeys(facts("pod-2"), served=(B,)), [B, C]),
        (known(pods={"0": ZERO}), 0, ApiHostKeys(facts(restarts=1), file_keys=(B,)), [B]),
        (OF_RELEASE, 0, ApiHostKeys(facts("pod-2"), served=(A,)), [A]),
    ],
    ids=["first", "release", "new pod, the other rank keeps its own", "new run of the container", "release, new pod"],
)
def test_keys_that_are_believed(before: SshHostEntry, rank: int, answer: ApiHostKeys, keys: list[str]) -> None:
    made = verify_host_keys(before, rank, answer)
    assert made.known_hosts_lines() == [f"a4-t {each}" for each in keys]
    assert made.pods[str(rank)].uid == answer.identity.uid
    assert not answer.release or made.pods[str(rank)].keys == ()


@pytest.mark.parametrize(
    ("before", "answer", "error", "words"),
    [
        (OF_RELEASE, ApiHostKeys(facts("pod-2"), release=(B,)), HostKeyChanged, "the release is the same"),
        (OF_RELEASE, ApiHostKeys(facts("pod-2"), served=(B,)), HostKeyChanged, "the release is the same"),
        (known(), ApiHostKeys(facts(), release=(A,), served=(B,)), HostKeyChanged, "its release has no other"),
        (known(), ApiHostKeys(facts()), NotFound, "cannot be read"),
    ],
)
def test_keys_that_are_refused(
    before: SshHostEntry, answer: ApiHostKeys, error: type[ConsoleError], words: str
) -> None:
    with pytest.raises(error, match=words):
        verify_host_keys(before, 0, answer)
