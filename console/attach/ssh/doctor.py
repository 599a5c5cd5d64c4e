"""Diagnoses SSH to a rank: each step from the token to an editor in the pod, with its duration and fix."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.attach.ssh import client as ssh, conflicts, identities, pod_keys
from console.attach.ssh.config_and_known_hosts import SshHostEntry
from console.attach.ssh.editors import DOCTOR_STEPS, SetupStep, StepState
from console.attach.ssh.host_key_check import ApiHostKeys, PodIdentity, verify_host_keys
from console.attach.ssh.identities import fingerprint
from console.attach.ssh.pod_keys import KeyProbe
from console.attach.ssh.ssh_folder import SshPaths
from console.attach.tunnel.local_forward import PortForwarder
from console.attach.tunnel.tunnel_files import list_tunnels
from console.errors import ConsoleError, KeyRefused, NotAllowed, NotFound, NotLoggedIn, Unreachable
from console.kube import actions
from console.kube.api_errors import CHECK_NETWORK
from console.kube.pod_address import PodAddress
from console.kube.port_forward import LivePod

if TYPE_CHECKING:
    import paramiko

    from console.kube.client import Client

BANNER_TIMEOUT = 4.0  # seconds an SSH server has to say its first line
MAX_BANNER_BYTES = 255  # bytes of it that are shown, as many as RFC 4253 allows
SSH_STEP_TIMEOUT = 7.0  # seconds for each step but the login program's
REFUSAL_TIMEOUT = 2.0  # seconds for which a refusal by the pod is waited for; a server speaks sooner
DOCTOR_POD_WAIT_SECONDS = 5.0  # seconds for which a rank's pod is waited for: a doctor says what is missing
EDITOR_DISK_GB = 1.0  # GB that the server of an editor with its extensions takes
MIN_GLIBC = (2, 28)  # what the server of VS Code needs, as do those made from it
EDITOR_PROBE_SCRIPT = """df -Pk "$HOME" | tail -n 1 | tr -s ' ' | cut -d' ' -f4
getconf GNU_LIBC_VERSION 2>/dev/null || echo none
for each in tar sh; do command -v $each >/dev/null || echo "no $each"; done"""
_FIX_BY_STEP = {  # what mends a step whose error has no hint of its own
    "token": "Log in again: gcloud auth login, or the program that wrote this kubeconfig.",
    "port": "The launchers install sshd and start it in step ssh (a4 logs JOB); other pods have to run one on 2222.",
    "banner": "Check which program listens there: a4 exec JOB POD -- ps aux",
    "sftp": "Add `Subsystem sftp internal-sftp` to sshd_config; a4 cp also works without it.",
    "editor": "The editor's server cannot be installed; plain ssh works.",
}


@dataclass(frozen=True, slots=True)
class StepWarning:
    """A step of the doctor that passed with a warning, and how to fix it."""

    finding: str
    fix: str


class DoctorRun:
    """The diagnosis of the SSH connection to one rank; each method is one step and returns what it found."""

    def __init__(self, client: Client, reach: PortForwarder, address: PodAddress, entry: SshHostEntry | None) -> None:
        self.client = client
        self.forwarder = reach
        self.address = address
        self.entry = entry
        self.exit_stack = AsyncExitStack()
        # Each is set by the step that finds it, and used by later ones only.
        self.target: LivePod
        self.transport: paramiko.Transport
        self._pod_identity: PodIdentity
        self._key_probe: KeyProbe
        self._first_read: asyncio.Task[bytes] | None = None

    @property
    def rank_name(self) -> str:
        return f"{self.address.job} {self.address.rank_text}".strip()

    async def close(self) -> None:
        if self._first_read is not None:
            self._first_read.cancel()
            await asyncio.gather(self._first_read, return_exceptions=True)
        await self.exit_stack.aclose()

    async def check_ssh_config(self) -> str | StepWarning:
        """Check that ssh, as the person uses it, takes a4's options for this pod."""
        if self.entry is None:
            return "No host of this job is written."
        places, host = SshPaths.locate(), self.entry.host(0 if self.address.group else self.address.number)
        try:
            found = await asyncio.to_thread(lambda: list(conflicts.find_foreign_options(places, host)))
        except (OSError, subprocess.SubprocessError) as error:
            return StepWarning(f"ssh -G {host} failed: {error}.", "Look at the person's ssh config, and at PATH.")
        fix = f"Put it under `Host * !a4-*`, below the line of a4's in {places.user_config}."
        return StepWarning(" ".join(found), fix) if found else f"{host} has a4's options."

    async def check_local_ports(self) -> str | StepWarning:
        """Check that no other program listens on the local ports of tunnels to the pod, present or past."""
        tunnels = [each for each in await list_tunnels() if each.address == self.address]
        ports = {each.local: each.remote for tunnel in tunnels for each in tunnel.listeners}
        own = {each.pid for each in tunnels if each.state != "ended"}
        try:
            found = await asyncio.to_thread(conflicts.find_listeners, ports, own)
        except OSError:
            return "Not known: this system has no /proc/net."
        sentences = [
            f"{name} listens on port {port}, which is that of a tunnel to the pod." for port, name in found.items()
        ]
        fix = (
            f"Stop it, or take a free port: a4 forward {self.rank_name} {' '.join(str(ports[port]) for port in found)}"
        )
        return StepWarning(" ".join(sentences), fix) if sentences else "No other program listens on those of tunnels."

    async def check_token(self) -> str | StepWarning:
        """Check that credentials are available; the next step shows whether the server accepts them."""
        login = self.client.login
        await login.headers()
        await login.tls()
        user = login.target.user
        if user.exec:
            return f"From {user.exec.get('command') or 'a plug-in'}, as {login.target.user_name}."
        kinds = (
            ("a token", user.token or user.token_file or user.token_source),
            ("a password", user.password),
            ("a certificate", user.client_certificate or user.client_certificate_data),
        )
        kind = next((name for name, there in kinds if there), "")
        if not kind:
            return StepWarning(
                "The kubeconfig holds no login: the server treats the request as anonymous.", _FIX_BY_STEP["token"]
            )
        return f"By {kind}, as {login.target.user_name or 'nobody'}."

    async def check_api(self) -> str:
        """Check that the server answers, and lets the account reach ports and run commands. Raises NotAllowed."""
        namespace = self.address.namespace
        for resource in ("portforward", "exec"):
            if not await actions.is_allowed(self.client, "get", "pods", "", namespace, "", resource):
                what = "reach ports of pods" if resource == "portforward" else "run commands in pods"
                hint = f"Ask for a role there with `get` and `create` on pods/{resource}."
                raise NotAllowed(f"No permission to {what} in namespace {namespace}.", hint)
        return f"{self.client.login.server} answers."

    async def check_pod(self) -> str:
        self.target = await self.forwarder.wait_for_pod(self.address, limit=DOCTOR_POD_WAIT_SECONDS)
        return f"{self.target.name}."

    async def check_container(self) -> str | StepWarning:
        at = self.target
        self._pod_identity = await pod_keys.read_pod_identity(self.client, at.namespace, at.name)
        self._key_probe = await pod_keys.probe_keys(self.client, at.namespace, at.name, container=at.container)
        text = f"{at.container or 'It'} runs as {self._key_probe.user}"
        if self._pod_identity.restarts:
            return StepWarning(
                f"{text}, after {self._pod_identity.restarts} restarts.", f"Why: a4 logs {self.rank_name} --previous"
            )
        return f"{text}."

    async def check_port(self) -> str:
        pipe = await self.exit_stack.enter_async_context(self.forwarder.open_stream(self.target, pod_keys.SSHD_PORT))
        self._first_read = asyncio.create_task(pipe.receive())
        await _require_open(self._first_read)
        return "Open."

    async def check_banner(self) -> str:
        assert self._first_read is not None
        await asyncio.wait({self._first_read}, timeout=BANNER_TIMEOUT)
        if not self._first_read.done():
            raise Unreachable(
                f"Port {pod_keys.SSHD_PORT} is open, but sends no SSH banner within {BANNER_TIMEOUT:.0f} s."
            )
        banner = self._first_read.result()
        if not banner.startswith(b"SSH-2.0-"):
            shown = banner[:40].decode(errors="replace").strip() or "nothing"
            raise Unreachable(f"What answers at port {pod_keys.SSHD_PORT} is not an SSH server: it says {shown!r}.")
        return banner[:MAX_BANNER_BYTES].split(b"\n", 1)[0].strip().decode(errors="replace") + "."

    async def check_host_key(self) -> str | StepWarning:
        """Check the pod's host key by the API and known_hosts. Raises NotFound (none in the API), HostKeyChanged."""
        release = await pod_keys.read_release_keys(self.client, self.target.namespace, self._pod_identity.key_secret)
        expected = release or self._key_probe.served_keys or self._key_probe.file_keys
        if not expected:
            raise NotFound("The API names no host key of this pod.", "Its image needs ssh-keyscan (openssh-client).")
        if self.entry:
            keys = ApiHostKeys(self._pod_identity, release, self._key_probe.served_keys, self._key_probe.file_keys)
            verify_host_keys(self.entry, self.target.number, keys)  # as a connection does
        login = self.client.login
        self.transport = await self.exit_stack.enter_async_context(ssh.open_connection(login, self.target, expected))
        shown = ssh.format_host_key(self.transport)
        text = f"{fingerprint(shown)}, as {'its release' if release else 'the pod'} says through the API"
        if (
            self.entry
            and self.entry.known_hosts_lines()
            and f"{self.entry.name} {shown}" not in self.entry.known_hosts_lines()
        ):
            return StepWarning(f"{text}; known_hosts still has another.", f"a4 ssh --write-config {self.address.job}")
        return f"{text}."

    async def check_login(self) -> str:
        places = SshPaths.locate()
        keys = await asyncio.to_thread(identities.find_identities, places)
        taken = {self._pod_identity.public_key, *self._key_probe.authorized_keys}
        wanted = self.entry.identity if self.entry else ""
        keys.sort(key=lambda each: (each.path != wanted, each.public_key not in taken))
        try:
            used = await asyncio.to_thread(ssh.log_in, self.transport, self._key_probe.user, keys)
        except KeyRefused as error:
            raise KeyRefused(error.message, f"Run `a4 ssh {self.rank_name}`: it adds a key, after asking.") from error
        return f"As {self._key_probe.user}, with {used.description}."

    async def check_sftp(self) -> str:
        await asyncio.to_thread(ssh.count_home_entries, self.transport)
        return "Works."

    async def check_editor(self) -> str | StepWarning:
        """Check disk space and C library for the server that an editor installs."""
        lines = (await asyncio.to_thread(ssh.run_command, self.transport, EDITOR_PROBE_SCRIPT)).splitlines()
        free = int(lines[0]) * 1024 / 1e9 if lines and lines[0].isdecimal() else 0.0
        libc = lines[1] if len(lines) > 1 else "none"
        missing = [line.removeprefix("no ") for line in lines[2:] if line.startswith("no ")]
        text = f"{free:,.1f} GB free in its home, {libc if libc != 'none' else 'no glibc'}"
        if free < EDITOR_DISK_GB:
            fix = f"Free {EDITOR_DISK_GB:.0f} GB there, or let HOME or ~/.vscode-server be a folder on a larger disk."
            return StepWarning(f"{text}: too little room.", fix)
        version = re.search(r"glibc (\d+)\.(\d+)", libc)
        if version is None or (int(version[1]), int(version[2])) < MIN_GLIBC:
            fix = "VS Code's server needs glibc 2.28 or newer: launch a newer image. Plain ssh works."
            return StepWarning(f"{text}.", fix)
        if missing:
            return StepWarning(
                f"{text}; there is no {' and no '.join(missing)}.", "The editor's server needs it to unpack."
            )
        return f"{text}."


async def _require_open(first: asyncio.Task[bytes]) -> None:
    """Raise Unreachable if the port-forward is refused: the refusal is an error of its first read, the task `first`."""
    await asyncio.wait({first}, timeout=REFUSAL_TIMEOUT)
    if first.done():
        first.result()


async def require_server(forwarder: PortForwarder, target: LivePod) -> None:
    """Raise Unreachable, with a hint, if nothing listens on port 2222 of a pod."""
    async with forwarder.open_stream(target, pod_keys.SSHD_PORT) as pipe:
        first = asyncio.create_task(pipe.receive())
        try:
            await _require_open(first)
        except Unreachable as error:
            raise Unreachable(error.message, error.hint or _FIX_BY_STEP["port"]) from error
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)


async def diagnose(
    client: Client, forwarder: PortForwarder, address: PodAddress, entry: SshHostEntry | None
) -> AsyncGenerator[SetupStep, None]:
    """Yield each step when it ends, in order; the steps after a failure are skipped. Changes nothing."""
    patient = DoctorRun(client, forwarder, address, entry)
    failed = ""
    try:
        for name in DOCTOR_STEPS:
            if failed:
                yield SetupStep(name, StepState.SKIPPED, found=f"Skipped: {DOCTOR_STEPS[failed]} failed.")
                continue
            step = await _run_step(name, patient)
            failed = name if step.state is StepState.FAILED else ""
            yield step
    finally:
        await patient.close()


async def _run_step(name: str, run: DoctorRun) -> SetupStep:
    began = time.monotonic()
    try:
        async with asyncio.timeout(None if name == "token" else SSH_STEP_TIMEOUT):
            found: str | StepWarning = await getattr(run, f"check_{name.replace('-', '_')}")()
    except TimeoutError:
        text = f"No answer of {run.client.login.server} within {SSH_STEP_TIMEOUT:g} s."
        end = StepState.FAILED, text, _FIX_BY_STEP.get(name, CHECK_NETWORK), Unreachable.exit_code
    except ConsoleError as error:
        fix = error.hint or _FIX_BY_STEP.get("token" if isinstance(error, NotLoggedIn) else name, "")
        end = StepState.FAILED, error.message, fix, error.exit_code
    else:
        warning = found if isinstance(found, StepWarning) else None
        end = (StepState.WARNING, warning.finding, warning.fix, 0) if warning else (StepState.OK, str(found), "", 0)
    state, text, fix, code = end
    return SetupStep(name, state, time.monotonic() - began, text, fix, code)
