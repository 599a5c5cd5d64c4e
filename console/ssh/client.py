"""SSH from inside a4, by paramiko, which only this module and `sftp` import.

Blocking functions over a connected socket, for threads, and `open_transport`, which puts them together: the host key
is checked against what the API says before anything is sent that could be misused.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import paramiko

from console.errors import HostKeyChanged, KeyRefused, NotAllowed, ProgramFailed, Unreachable
from console.models.tunnel import Address
from console.ssh import identities, pod_facts
from console.ssh.identities import fingerprint
from console.ssh.places import Places
from console.tunnel.reach import Reach

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Collection, Iterator, Sequence

    from console.cluster.login import Login
    from console.models.tunnel import LivePod
    from console.ssh.identities import Identity
    from console.ssh.pod_facts import Probe
    from console.watched import WatchedCluster

# What fails is raised; paramiko's own account of it would go to the terminal that the console draws on.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

ANSWER = 10.0
"""Seconds for each answer of an SSH server."""
TRIES = 5
"""Keys that are offered: an OpenSSH server hangs up after six."""
_RSA = ("rsa-sha2-512", "rsa-sha2-256")


def start(sock: socket.socket, expected: Collection[str] = ()) -> paramiko.Transport:
    """Agree on ciphers, asking for a host key of the types that are expected; raises Unreachable."""
    try:
        transport = paramiko.Transport(sock)
        transport.banner_timeout = ANSWER
        transport.auth_timeout = ANSWER
        kinds = [kind for key in expected for kind in (_RSA if key.startswith("ssh-rsa ") else (key.split()[0],))]
        options = transport.get_security_options()
        options.key_types = [kind for kind in options.key_types if kind in kinds] or options.key_types
        transport.start_client(timeout=ANSWER)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(f"The SSH server cannot be spoken with: {_words(error)}.") from error
    return transport


def host_key(transport: paramiko.Transport) -> str:
    """The key that the server showed, "type base64"."""
    key = transport.get_remote_server_key()
    return f"{key.get_name()} {key.get_base64()}"


def check_host_key(transport: paramiko.Transport, expected: Collection[str]) -> str:
    """The server's key, if it is one of those; raises HostKeyChanged."""
    shown = host_key(transport)
    if shown not in expected:
        known = " or ".join(map(fingerprint, expected)) or "none"
        raise HostKeyChanged(
            f"The SSH server shows the host key {fingerprint(shown)}; the API says {known}.",
            "Something else answers at port 2222 of this pod. Do not log in before you know what.",
        )
    return shown


def log_in(transport: paramiko.Transport, user: str, keys: Sequence[Identity]) -> Identity:
    """Log in with the first of these keys that is taken; raises KeyRefused."""
    tried = []
    with _agent() as held:
        for identity in [each for each in keys if not each.needs_hand][:TRIES]:
            pair = held.get(identity.public) or _read(identity)
            if pair is None:
                continue
            tried.append(identity.told)
            if _taken(transport, user, pair):
                return identity
    what = f"None of these is taken: {', '.join(tried)}" if tried else "There is no key that can be used"
    raise KeyRefused(f"{what}, for the user {user}.", "a4 ssh puts a key there, after asking.")


@contextmanager
def _agent() -> Iterator[dict[str, paramiko.AgentKey]]:
    """Keys that the agent holds, by their public halves, while it can be asked to use them."""
    try:
        agent = paramiko.Agent()
    except (paramiko.SSHException, OSError):  # one that does not answer holds nothing for us
        yield {}
        return
    try:
        yield {f"{each.get_name()} {each.get_base64()}": each for each in agent.get_keys()}
    finally:
        agent.close()


def _taken(transport: paramiko.Transport, user: str, pair: paramiko.PKey) -> bool:
    try:
        transport.auth_publickey(user, pair)
    except paramiko.AuthenticationException:
        return False
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(f"The SSH server broke off the login: {_words(error)}.") from error
    return True


def run(transport: paramiko.Transport, command: str) -> str:
    """What a command printed; raises ProgramFailed with its exit code, Unreachable."""
    try:
        with transport.open_session(timeout=ANSWER) as channel:
            channel.settimeout(ANSWER)
            channel.exec_command(command)
            said = channel.makefile("rb").read().decode(errors="replace")
            code = channel.recv_exit_status()
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(f"`{command}` could not be run: {_words(error)}.") from error
    if code:
        raise ProgramFailed(f"`{command}` ended with exit code {code}.", code=code)
    return str(said)


def list_home(transport: paramiko.Transport) -> int:
    """How many files SFTP shows where it begins; raises Unreachable."""
    try:
        channel = transport.open_session(timeout=ANSWER)
        channel.settimeout(ANSWER)
        channel.invoke_subsystem("sftp")
        with paramiko.SFTPClient(channel) as files:
            return len(files.listdir("."))
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(f"The SSH server has no SFTP: {_words(error)}.") from error


@asynccontextmanager
async def open_transport(watched: WatchedCluster, namespace: str, pod: str) -> AsyncIterator[paramiko.Transport]:
    """An SSH connection to a pod, logged in, its host key checked against what the API says.

    Raises Unreachable, HostKeyChanged, KeyRefused and what requests raise, within some ten seconds.
    """
    client = watched.connected.client
    facts = await pod_facts.read_pod(client, namespace, pod)
    expected = await pod_facts.release_keys(client, namespace, facts.secret)
    probed: Probe | None = None
    try:
        probed = await pod_facts.probe(client, namespace, pod)
    except NotAllowed:
        if not expected:
            raise
    expected = expected or (probed.served or probed.kept if probed else ())
    found = await asyncio.to_thread(identities.find, Places.find())
    taken = {facts.public_key, *(probed.authorized if probed else ())}
    keys = sorted(found, key=lambda each: each.public not in taken)
    user = probed.user if probed else "root"
    async with connection(client.login, Address.of(namespace, f"pod/{pod}", ""), expected) as transport:
        await asyncio.to_thread(log_in, transport, user, keys)
        yield transport


@asynccontextmanager
async def connection(
    login: Login, where: Address | LivePod, expected: Collection[str]
) -> AsyncIterator[paramiko.Transport]:
    """A connection to the SSH server of a rank, its host key checked, nobody logged in yet."""
    async with Reach(login).socket(where, pod_facts.PORT) as sock:
        transport = await asyncio.to_thread(start, sock, expected)
        try:
            check_host_key(transport, expected)
            yield transport
        finally:
            await asyncio.to_thread(transport.close)


def _read(identity: Identity) -> paramiko.PKey | None:
    if identity.agent:
        return None
    try:
        return paramiko.PKey.from_path(identity.path)
    except (paramiko.SSHException, OSError, ValueError):  # not one that can be used without a question
        return None


def _words(error: BaseException) -> str:
    """What a library said, as the end of a sentence of ours."""
    return (str(error).strip() or "the connection ended").rstrip(".")
