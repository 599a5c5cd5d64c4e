"""Ranks by name: what a4 writes for ssh, used by OpenSSH's own programs on both clusters."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from console.attach.ssh import config_and_known_hosts
from console.attach.ssh.editors import DOCTOR_STEPS, SshHost, StepState
from console.attach.ssh.ssh_folder import SshPaths
from console.connection_settings import Settings
from console.errors import HostKeyChanged, NotAllowed
from console.launch.recipes import LaunchPlan
from console.scheduling.pod_slots import pod_slots
from console.session import Session
from tests.apiserver import listening
from tests.contract.client import MERGE_PATCH
from tests.contract.cluster import CORE, Cluster, eventually, soon
from tests.contract.space import Space
from tests.openssh import OpenSsh, alone

pytestmark = pytest.mark.programs("ssh", "scp", "sftp", "ssh-keygen", "ssh-agent", "ssh-add", "rsync")
JOB = "named"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHGa0wvgvw+Zw1XSjDVyvBM4M7MDx1dyZnPHm8P1vQ6R"


@pytest.fixture
def openssh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> OpenSsh:
    return alone(monkeypatch, tmp_path / "dot ssh")


@pytest.fixture
async def session(cluster: Cluster, space: Space) -> AsyncIterator[Session]:
    """A session that sees a running job of two ranks."""
    queue = await space.queue("a", 16)
    await space.jobset(JOB, queue, 2, restarts=3)
    await space.pods(JOB, 2)
    opened = await Session.open(Settings(kubeconfig=cluster.kubeconfig, namespace=space.name))
    await opened.wait_until_listed("jobsets", "pods")
    yield opened
    await opened.close()


async def set_up(session: Session, rank: int = 0) -> SshHost:
    """What `a4 ssh` and the key v do, the person agreeing."""
    return await session.attach.set_up(await session.attach.plan_setup(session.namespace, JOB, rank))


async def test_ssh_scp_and_sftp_by_name(session: Session, openssh: OpenSsh, tmp_path: Path) -> None:
    host = await set_up(session)
    done = await openssh.ssh(host.host, "echo in; exit 3")
    assert (done.out, done.code) == ("in\n", 3), done.err
    (tmp_path / "sent").write_bytes(b"x" * 300_000)
    done = await openssh.scp(str(tmp_path / "sent"), f"{host.host}:got")
    assert done.code == 0, done.err
    done = await openssh.sftp(host.host, f"get got {tmp_path}/back\nrm got\n")
    assert (tmp_path / "back").read_bytes() == b"x" * 300_000, done.err


async def test_a_session_knows_nothing_of_the_containers_environment(session: Session, openssh: OpenSsh) -> None:
    """An sshd starts its sessions anew; what launchers want them to have they write to where it looks."""
    host = await set_up(session)
    done = await openssh.ssh(host.host, "env")
    assert done.code == 0, done.err
    names = {line.partition("=")[0] for line in done.out.splitlines()}
    assert {"HOME", "PATH", "USER", "SHELL"} <= names
    assert "JOB_COMPLETION_INDEX" not in names


async def test_rsync_by_name(session: Session, openssh: OpenSsh, tmp_path: Path) -> None:
    host = await set_up(session)
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "file").write_text("told")
    # The lab's pods have one file system, and its sshd begins in the account's home.
    there = (await openssh.ssh(host.host, "mktemp -d")).out.strip()
    done = await openssh.rsync(f"{tmp_path}/tree/", f"{host.host}:{there}/tree/")
    assert done.code == 0, done.err
    done = await openssh.ssh(host.host, f"cat {there}/tree/deep/file; rm -r {there}")
    assert done.out == "told", done.err


async def test_a_port_of_the_pod_through_ssh(session: Session, openssh: OpenSsh) -> None:
    """Both clusters' pods have the ports of this machine."""
    host = await set_up(session)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    async with listening(answer) as port:
        through = ("ssh", "-F", str(openssh.config), "-W", f"127.0.0.1:{port}", host.host)
        assert (await openssh.run(*through, typed=b"told")).out == "TOLD"
    refused = await openssh.run(*through, typed=b"told")
    assert refused.code == 255
    assert "refused" in refused.err or "failed" in refused.err


async def test_nothing_is_put_into_a_pod_unasked(session: Session, openssh: OpenSsh) -> None:
    plan = await session.attach.plan_setup(session.namespace, JOB, 0)
    assert (plan.makes_key, plan.adds_key, plan.adds_include) == (True, True, True)
    assert not openssh.folder.exists(), "a plan changes nothing"
    with pytest.raises(NotAllowed, match="lacks the key"):
        await session.attach.set_up(replace(plan, adds_key=False))
    again = await session.attach.plan_setup(session.namespace, JOB, 0)
    assert again.adds_key


async def test_a_key_that_only_the_agent_holds(
    session: Session, openssh: OpenSsh, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key, agent = tmp_path / "key", tmp_path / "agent"
    assert (await openssh.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "held", "-f", str(key))).code == 0
    running = await openssh.start("ssh-agent", "-D", "-a", str(agent))
    try:
        assert running.stdout is not None
        await running.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        assert (await openssh.run("ssh-add", "-q", str(key))).code == 0
        key.unlink()
        key.with_suffix(".pub").unlink()
        plan = await session.attach.plan_setup(session.namespace, JOB, 0)
        assert (plan.makes_key, plan.key_text) == (False, "held of the agent")
        host = await session.attach.set_up(plan)
        assert (await openssh.ssh(host.host, "echo in")).out == "in\n"
        steps = {step.name: step async for step in session.attach.diagnose(session.namespace, JOB, 0)}
        assert "held of the agent" in steps["login"].found
    finally:
        running.terminate()
        await running.communicate()


async def test_a_second_time_has_nothing_to_do(session: Session, openssh: OpenSsh) -> None:
    await set_up(session)
    first = openssh.known_hosts.read_bytes(), (openssh.folder / "a4" / "config").read_bytes()
    plan = await session.attach.plan_setup(session.namespace, JOB, 0)
    assert (plan.makes_key, plan.adds_key, plan.adds_include) == (False, False, False)
    host = await session.attach.set_up(plan)
    assert host.notes == ()
    assert (openssh.known_hosts.read_bytes(), (openssh.folder / "a4" / "config").read_bytes()) == first


async def test_a_name_outlives_its_pod(session: Session, openssh: OpenSsh, space: Space) -> None:
    host = await set_up(session, rank=1)
    before = await space.pods(JOB, 2)
    assert (await openssh.ssh(host.host, "true")).code == 0
    config = openssh.config.read_bytes(), (openssh.folder / "a4" / "config").read_bytes()
    await space.api.delete(space.path(CORE, "pods", before[1]["metadata"]["name"]), gracePeriodSeconds=0)
    # The proxy waits for the next pod by itself.
    done = await openssh.ssh(host.host, "echo again")
    assert done.out == "again\n", done.err
    after = await space.pods(JOB, 2)
    assert {each["metadata"]["uid"] for each in after}.isdisjoint({before[1]["metadata"]["uid"]})
    assert (openssh.config.read_bytes(), (openssh.folder / "a4" / "config").read_bytes()) == config


async def test_a_host_key_that_nothing_explains_is_refused(session: Session, openssh: OpenSsh) -> None:
    host = await set_up(session)
    places = SshPaths.locate()
    with places.lock():
        (entry,) = config_and_known_hosts.load_entries(places)
        known = msgspec.structs.replace(entry.pods["0"], keys=(OTHER_KEY,))
        config_and_known_hosts.save_entry(places, msgspec.structs.replace(entry, pods={"0": known}, release_keys=()))
    done = await openssh.ssh(host.host, "true")
    assert done.code == 255
    assert "Host key verification failed" in done.err
    with pytest.raises(HostKeyChanged, match="and its pod is the same") as refused:
        await set_up(session)
    assert "a4 ssh --forget named" in refused.value.hint
    steps = [step async for step in session.attach.diagnose(session.namespace, JOB, 0)]
    (failed,) = [step for step in steps if step.state is StepState.FAILED]
    assert (failed.name, failed.fix) == ("host-key", refused.value.hint)
    assert await session.attach.remove_job(session.namespace, JOB)
    assert (await openssh.ssh((await set_up(session)).host, "true")).code == 0


async def test_the_release_answers_for_its_pods(session: Session, openssh: OpenSsh, space: Space) -> None:
    """Its Secret names the host key. On the lab one sshd stands behind all pods, which no release knows: refused."""
    release = "released"
    await space.queue("b", 16)
    await session.launch.install(LaunchPlan("interactive", release, space.name, {"queue": "b", "gpus": 16}))
    await space.pods(release, 2)
    await soon(lambda: (space.name, release) in session.fleet.jobsets, "the session sees it")
    plan = await session.attach.plan_setup(space.name, release, 1)
    if space.cluster.name == "lab":
        with pytest.raises(HostKeyChanged, match="its release has no other"):
            await session.attach.set_up(plan)
        return
    host = await session.attach.set_up(plan)
    other = replace(await session.attach.plan_setup(space.name, release, 0), adds_key=True)
    assert host.fingerprints == (await session.attach.set_up(other)).fingerprints, "one key for all pods"
    assert (await openssh.ssh(host.host, "echo in")).out == "in\n"

    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    change = {"data": {"host_key": base64.b64encode(pem).decode()}}
    answer = await space.api.send("PATCH", space.path(CORE, "secrets", f"{release}-ssh"), change, MERGE_PATCH)
    assert answer.status == 200
    done = await openssh.ssh(host.host, "true")
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.err
    with pytest.raises(HostKeyChanged):
        await session.attach.set_up(plan)


async def test_the_doctor_finds_nothing_wrong(session: Session, openssh: OpenSsh) -> None:
    await set_up(session)
    steps = [step async for step in session.attach.diagnose(session.namespace, JOB, 0)]
    assert [step.name for step in steps] == list(DOCTOR_STEPS)
    assert {step.state for step in steps} <= {StepState.OK, StepState.WARNING}, steps
    assert next(step for step in steps if step.name == "banner").found.startswith("SSH-2.0-")


async def test_the_doctor_says_which_step_fails(session: Session, openssh: OpenSsh) -> None:
    steps = {step.name: step async for step in session.attach.diagnose(session.namespace, JOB, 0)}
    assert steps["host-key"].state is StepState.OK
    assert steps["login"].state is StepState.FAILED
    assert "a4 ssh named 0" in steps["login"].fix
    assert steps["sftp"].state is StepState.SKIPPED
    steps = {step.name: step async for step in session.attach.diagnose(session.namespace, JOB, 7)}
    assert steps["pod"].state is StepState.FAILED
    assert "no pod 7" in steps["pod"].found


async def test_hosts_of_jobs_that_are_gone_disappear(session: Session, openssh: OpenSsh, space: Space) -> None:
    await set_up(session)
    assert await session.attach.remove_ended() == ()
    await session.launch.stop(space.name, JOB)

    async def gone() -> bool:
        return bool(await session.attach.remove_ended())

    await eventually(gone, "the host entries go with the job")
    assert "Host " not in (openssh.folder / "a4" / "config").read_text()
    assert openssh.known_hosts.read_text() == ""


async def test_read_only_sets_up_nothing(cluster: Cluster, session: Session, openssh: OpenSsh) -> None:
    plan = await session.attach.plan_setup(session.namespace, JOB, 0)
    assert len(pod_slots(session.fleet.jobsets[session.namespace, JOB], session.fleet)) == 2
    looking = await Session.open(Settings(kubeconfig=cluster.kubeconfig, namespace=session.namespace, read_only=True))
    try:
        with pytest.raises(NotAllowed, match="read-only"):
            await looking.attach.set_up(plan)
        with pytest.raises(NotAllowed, match="read-only"):  # before anybody is asked
            await looking.attach.plan_setup(session.namespace, JOB, 0)
    finally:
        await looking.close()
    assert not openssh.folder.exists()
