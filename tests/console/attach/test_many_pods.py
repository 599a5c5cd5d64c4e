"""One command in many pods through one of them: the real script of the gateway, with a stand-in for ssh's program."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import structs

from console.attach import fan_out, gateway_script
from console.attach.fan_out import MAX_CONCURRENT_PODS, PodAnswers, run_in_pods
from console.errors import NotAllowed, ProgramFailed, Unreachable, Unreadable
from console.kube.objects.pod import Pod
from console.scheduling.pod_slots import PodSlot
from tests.fakes import present
from tests.screens.scene import jobset, rank

SSH = f"""#!{sys.executable} -IS
# ssh ... -o HostName=ADDRESS -- NAME COMMAND, in the pod of that address: a folder beside this one
import os, sys
address = next(word[9:] for word in sys.argv if word.startswith("HostName="))
config = sys.argv[sys.argv.index("-F") + 1]
assert open(config).read() == "keys", "ssh is to read the config of the launchers"
place = os.path.join(os.environ["PODS"], address)
if not os.path.isdir(place):
    sys.stderr.write("ssh: connect to host %s port 2222: Connection refused\\n" % address)
    sys.exit(255)
os.environ["POD"] = place
os.execvp("sh", ["sh", "-c", sys.argv[-1]])
"""
ARGV = ("sh", "-c", 'cat "$POD/name"; cat; echo "$1"', "sh", "it's said")
INPUT = b"what they all get\n"


class Pods:
    """Pods of one job: folders on this machine. A stream into one runs a command there."""

    def __init__(self, folder: Path, number: int, *, limit: int = 1000) -> None:
        self.folder, self.limit = folder, limit
        self.streams, self.now, self.most = 0, 0, 0
        job = jobset("train", number)
        self.ranks = [
            PodSlot(at, "workload", 0, at, 8, rank(job, at, f"node-{at}")) for at in range(number)
        ]  # fmt: skip
        for each in self.ranks:
            assert each.pod is not None
            place = folder / each.pod.ip
            (place / ".ssh").mkdir(parents=True)
            (place / "name").write_text(f"pod {each.number}\n")
            (place / ".ssh" / "id_pods").write_text("a key")
            (place / ".ssh" / "config").write_text("keys")
        self.programs = folder / "bin"
        self.programs.mkdir()
        (self.programs / "ssh").write_text(SSH)
        (self.programs / "ssh").chmod(0o755)

    def place(self, number: int) -> Path:
        pod = present(self.ranks[number].pod)
        return self.folder / pod.ip

    async def run(self, pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        self.streams += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.now > self.limit:
                raise Unreachable("No agent available.", status=500)
            place = self.folder / pod.ip
            path = f"{self.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
            process = await asyncio.create_subprocess_exec(
                *argv, env={"PATH": path, "HOME": str(place), "POD": str(place), "PODS": str(self.folder)},
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(stdin)
            process.stdin.write_eof()

            async def pass_on(channel: int, stream: asyncio.StreamReader) -> None:
                while data := await stream.read(1 << 16):
                    size = 7 if len(data) < 10_000 else 4093
                    for at in range(0, len(data), size):  # in pieces that end anywhere
                        take(channel, data[at : at + size])

            beside = asyncio.create_task(pass_on(2, process.stderr))
            try:
                await pass_on(1, process.stdout)
                await beside
                return await process.wait()
            finally:
                beside.cancel()
                await asyncio.wait({beside})
                with suppress(ProcessLookupError):
                    process.kill()
                await process.communicate()
        finally:
            self.now -= 1

    async def ask(self, argv: Sequence[str] = ARGV, limit: float = 30.0) -> PodAnswers:
        return await run_in_pods(self.run, self.ranks, argv, INPUT, limit)


def answer_of(number: int) -> bytes:
    return b"pod %d\n%sit's said\n" % (number, INPUT)


@pytest.mark.slow(reason="starts programs of its own")
async def test_one_stream_brings_the_answers_of_all_pods(tmp_path: Path) -> None:
    pods = Pods(tmp_path, 40, limit=4)
    told: list[int] = []
    answers = await run_in_pods(
        pods.run, pods.ranks, (*ARGV[:2], f"{ARGV[2]} | cat", *ARGV[3:]), INPUT, 30.0,
        on_answer=lambda rank: told.append(rank.number),
    )  # fmt: skip
    assert answers.by_pod == {number: answer_of(number) for number in range(40)}
    assert (answers.gateway, answers.gateway_answers, answers.gateway_error) == (0, 40, "")
    assert pods.streams == 1
    assert sorted(told) == list(range(40)), "each is counted once"


async def test_few_pods_get_a_stream_each(tmp_path: Path) -> None:
    pods = Pods(tmp_path, 3)
    answers = await pods.ask()
    assert answers.by_pod == {number: answer_of(number) for number in range(3)}
    assert (pods.streams, answers.gateway) == (3, None)


async def test_a_pod_that_ssh_does_not_reach_gets_a_stream_of_its_own(tmp_path: Path) -> None:
    pods = Pods(tmp_path, 8)
    away = pods.folder / "elsewhere"
    pods.place(5).rename(away)
    running = pods.run

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        if pod.name == pods.ranks[5].name:
            away.rename(pods.place(5))
        return await running(pod, argv, stdin, take)

    answers = await run_in_pods(run, pods.ranks, ARGV, INPUT, 30.0)
    assert answers.by_pod == {number: answer_of(number) for number in range(8)}
    assert (pods.streams, answers.gateway_answers) == (2, 7)


async def test_pods_without_the_key_of_the_chart_get_a_stream_each_few_at_a_time(tmp_path: Path) -> None:
    pods = Pods(tmp_path, 40, limit=32)
    for number in range(40):
        (pods.place(number) / ".ssh" / "id_pods").unlink()
    answers = await pods.ask()
    assert answers.by_pod == {number: answer_of(number) for number in range(40)}
    assert pods.streams == 41, "the first one says that there is no key, and no other is tried"
    assert pods.most == MAX_CONCURRENT_PODS
    assert (answers.gateway, answers.gateway_error) == (None, "there is no ssh, or no key of the release, in this pod")


async def test_a_stream_for_which_there_is_no_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "STREAM_RETRY_PAUSES", (0.01,) * 200)
    pods = Pods(tmp_path, 24, limit=8)
    for number in range(24):
        (pods.place(number) / ".ssh" / "id_pods").unlink()
    answers = await pods.ask()
    assert answers.by_pod == {number: answer_of(number) for number in range(24)}
    assert pods.streams > 25, "some were refused at first"


async def test_a_gateway_that_does_not_answer_is_followed_by_the_next(tmp_path: Path) -> None:
    pods = Pods(tmp_path, 8)
    running = pods.run

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        if pod.name == pods.ranks[0].name:
            raise Unreachable("Pod 0 does not answer.")
        return await running(pod, argv, stdin, take)

    answers = await run_in_pods(run, pods.ranks, ARGV, INPUT, 30.0)
    assert answers.by_pod == {number: answer_of(number) for number in range(8)}
    assert (answers.gateway, pods.streams) == (1, 1), "pod 0 answers by ssh"


@pytest.mark.slow(reason="waits for gateways that say nothing, or nothing that is an answer")
@pytest.mark.parametrize(
    ("number", "piece", "asked"), [(8, b"", 1), (8, b"word\n", 1), (17, b"", 3), (17, b"word\n", 3)]
)
async def test_silent_and_dripping_gateways_are_given_up_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, piece: bytes, asked: int
) -> None:
    monkeypatch.setattr(fan_out, "GATEWAY_START_TIMEOUT", 0.5)
    pods, gateways = Pods(tmp_path, number), list[str]()

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        if len(stdin) == len(INPUT):
            return await running(pod, argv, stdin, take)
        gateways.append(pod.name)
        while True:
            if piece:
                take(1, piece)
            await asyncio.sleep(0.1)

    running, begun = pods.run, asyncio.get_running_loop().time()
    answers = await run_in_pods(run, pods.ranks, ARGV, INPUT, 30.0)
    assert answers.by_pod == {each: answer_of(each) for each in range(number)}
    assert len(gateways) == asked
    assert asyncio.get_running_loop().time() - begun < 8


async def test_who_may_not_run_commands_is_not_asked_pod_by_pod(tmp_path: Path) -> None:
    pods, asked = Pods(tmp_path, 8), list[str]()

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        asked.append(pod.name)
        raise NotAllowed("You may not.", status=403)

    answers = await run_in_pods(run, pods.ranks, ARGV, INPUT, 30.0)
    assert {type(each) for each in answers.by_pod.values()} == {NotAllowed}
    assert len(answers.by_pod) == 8
    assert len(asked) == 1


@pytest.mark.slow(reason="starts programs of its own")
async def test_what_fails_in_a_pod_is_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "MAX_POD_BYTES", 100_000)
    pods = Pods(tmp_path, 6)
    script = 'case $(cat "$POD/name") in *2) echo why >&2; exit 3;; *3) sleep 60;; *4) exec yes;; esac; echo ok'
    answers = await pods.ask(("sh", "-c", script), limit=4.0)
    failed = answers.by_pod[2]
    assert isinstance(failed, ProgramFailed)
    assert (failed.message, failed.code) == ("why", 3)
    assert isinstance(answers.by_pod[3], Unreachable)
    assert "it did not answer within 4 s" in str(answers.by_pod[3])
    assert isinstance(answers.by_pod[4], Unreadable)
    assert [answers.by_pod[number] for number in (0, 1, 5)] == [b"ok\n"] * 3
    assert pods.streams == 1


@pytest.mark.parametrize(
    "said",
    [b"a4-gateway\n9 1 3\nabc", b"a4-gateway\n0 7 3\nabc", b"a4-gateway\n0 1 -3\nabc", b"a4-gateway\n0 0 3\nabc",
     b"a4-gateway\n0 1 99999999\n", b"a4-gateway\n" + b"7" * 64, b"x" * 100_000,
     b"a4-gateway\n0 0 9000\n" + b"9" * 9000],
    ids=["pod", "channel", "length", "code", "size", "line", "noise", "digits"],
)  # fmt: skip
async def test_a_gateway_that_lies_is_not_believed(said: bytes, tmp_path: Path) -> None:
    pods = Pods(tmp_path, 6)
    running = pods.run

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        if "a4-gateway" in stdin.decode():
            take(2, b"\n")
            take(1, said)
        return await running(pod, argv, stdin, take)

    answers = await run_in_pods(run, pods.ranks, ARGV, INPUT, 30.0)
    assert answers.by_pod == {number: answer_of(number) for number in range(6)}
    assert answers.gateway is None
    assert "cannot be parsed" in answers.gateway_error
    assert pods.streams == 6


async def test_all_pods_together_print_no_more_than_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "MAX_ANSWERS_BYTES", 20_000)
    pods = Pods(tmp_path, 6)
    answers = await pods.ask(("sh", "-c", "head -c 8000 /dev/zero"))
    failed = [each for each in answers.by_pod.values() if isinstance(each, Unreadable)]
    assert len(failed) >= 4
    assert len(answers.by_pod) == 6


async def test_an_address_that_is_none_goes_to_no_command_line(tmp_path: Path) -> None:
    pods = Pods(tmp_path, 6)
    lying = present(pods.ranks[3].pod)
    pods.ranks[3] = structs.replace(pods.ranks[3], pod=structs.replace(lying, ip="-oProxyCommand=touch x"))
    asked: list[bytes] = []

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        asked.append(stdin)
        raise Unreachable("not now")

    await run_in_pods(run, pods.ranks, ARGV, INPUT, 30.0)
    assert not any(b"ProxyCommand" in each for each in asked)


def test_the_key_is_that_of_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert gateway_script.ssh_folder() == ""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_pods").write_text("a key")
    assert gateway_script.ssh_folder() == str(tmp_path / ".ssh")
