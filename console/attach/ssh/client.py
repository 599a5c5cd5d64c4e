"""An SSH and SFTP client based on paramiko, the only importer of it.

Functions block and run in threads. The server's host key is compared with those in the API before the client logs in.
Files are read from an offset on, with many requests at a time; a connection has one user at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import paramiko

from console.attach.ssh import identities, pod_keys
from console.attach.ssh.identities import Identity, fingerprint
from console.attach.ssh.pod_keys import KeyProbe
from console.attach.ssh.ssh_folder import SshPaths
from console.attach.tunnel.local_forward import PortForwarder
from console.errors import CopyFailed, HostKeyChanged, KeyRefused, NotAllowed, ProgramFailed, Unreachable, Unreadable
from console.kube.pod_address import PodAddress
from console.kube.port_forward import LivePod

if TYPE_CHECKING:
    import socket

    from console.kube.login import Login
    from console.kube.watched_cluster import WatchedCluster


# What fails is raised; paramiko's own account of it would go to the terminal that the console draws on.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

SSH_ANSWER_TIMEOUT = 10.0  # seconds for each answer of an SSH server
HANDSHAKE_TIMEOUT = 5.0  # seconds until both sides have agreed on ciphers
MAX_OUTPUT_BYTES, MAX_FOLDER_ENTRIES = 1 << 16, 10_000  # bytes of an answer, and names of a folder
MAX_OFFERED_KEYS = 5  # keys that are offered: an OpenSSH server hangs up after six
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")


def start_transport(sock: socket.socket, expected: Collection[str] = ()) -> paramiko.Transport:
    """Negotiate an SSH connection that asks for a host key of an expected type; raises Unreachable."""
    try:
        transport = paramiko.Transport(sock)
        transport.banner_timeout = HANDSHAKE_TIMEOUT
        transport.auth_timeout = SSH_ANSWER_TIMEOUT
        kinds = [
            kind for key in expected for kind in (_RSA_SIGNATURES if key.startswith("ssh-rsa ") else (key.split()[0],))
        ]
        options = transport.get_security_options()
        options.key_types = [kind for kind in options.key_types if kind in kinds] or options.key_types
        transport.start_client(timeout=HANDSHAKE_TIMEOUT)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(f"The SSH connection failed: {_format_error(error)}.") from error
    if not transport.initial_kex_done:  # start_client returns all the same when its time is up
        transport.close()
        raise Unreachable(
            f"The SSH connection failed: what listens at port {pod_keys.SSHD_PORT} does not speak SSH within"
            f" {HANDSHAKE_TIMEOUT:g} s.",
            "Which program it is: a4 doctor JOB POD.",
        )
    return transport


def format_host_key(transport: paramiko.Transport) -> str:
    key = transport.get_remote_server_key()
    return f"{key.get_name()} {key.get_base64()}"


def check_host_key(transport: paramiko.Transport, expected_keys: Collection[str]) -> None:
    """Raise HostKeyChanged unless the server's key is one of the expected ones."""
    shown = format_host_key(transport)
    if shown not in expected_keys:
        known = " or ".join(map(fingerprint, expected_keys)) or "none"
        hint = "Another program answers at port 2222 of this pod. Find out which one before you log in."
        raise HostKeyChanged(f"The SSH server shows the host key {fingerprint(shown)}; the API reports {known}.", hint)


def log_in(transport: paramiko.Transport, user: str, keys: Sequence[Identity]) -> Identity:
    """Log in with the first key that the server accepts; raises KeyRefused."""
    tried = []
    with _agent_keys() as held:
        for identity in [each for each in keys if not each.needs_touch][:MAX_OFFERED_KEYS]:
            pair = held.get(identity.public_key) or _load_key(identity)
            if pair is None:
                continue
            tried.append(identity.description)
            if _is_key_accepted(transport, user, pair):
                return identity
    what = f"The server accepts none of these keys: {', '.join(tried)}" if tried else "There is no usable key"
    raise KeyRefused(f"{what}, for the user {user}.", "a4 ssh adds a key, after asking.")


@contextmanager
def _agent_keys() -> Iterator[dict[str, paramiko.AgentKey]]:
    """The keys in the SSH agent, by public key, usable during this block."""
    try:
        agent = paramiko.Agent()
    except (paramiko.SSHException, OSError):  # one that does not answer holds nothing for us
        yield {}
        return
    try:
        yield {f"{each.get_name()} {each.get_base64()}": each for each in agent.get_keys()}
    finally:
        agent.close()


def _is_key_accepted(transport: paramiko.Transport, user: str, pair: paramiko.PKey) -> bool:
    try:
        transport.auth_publickey(user, pair)
    except paramiko.AuthenticationException:
        return False
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(f"The SSH server closed the connection during login: {_format_error(error)}.") from error
    return True


def run_command(transport: paramiko.Transport, command: str) -> str:
    """Run a command; returns its output. Raises ProgramFailed with its exit code, Unreadable or Unreachable."""
    try:
        with transport.open_session(timeout=SSH_ANSWER_TIMEOUT) as channel:
            channel.settimeout(SSH_ANSWER_TIMEOUT)
            channel.exec_command(command)
            text = channel.makefile("rb").read(MAX_OUTPUT_BYTES + 1).decode(errors="replace")
            if len(text) > MAX_OUTPUT_BYTES:
                raise Unreadable(f"`{command}` has printed more than {MAX_OUTPUT_BYTES >> 10} KiB: it was stopped.")
            code = channel.recv_exit_status()
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(f"`{command}` could not be run: {_format_error(error)}.") from error
    if code:
        raise ProgramFailed(f"`{command}` ended with exit code {code}.", code=code)
    return str(text)


def count_home_entries(transport: paramiko.Transport) -> int:
    """The number of files that SFTP lists in its start folder, up to a limit; raises Unreachable."""
    try:
        channel = transport.open_session(timeout=SSH_ANSWER_TIMEOUT)
        channel.settimeout(SSH_ANSWER_TIMEOUT)
        channel.invoke_subsystem("sftp")
        with _LimitedSftpClient(channel) as files:
            return sum(1 for _ in islice(files.listdir_iter(".", read_aheads=1), MAX_FOLDER_ENTRIES))
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Unreachable(f"The SSH server has no SFTP: {_format_error(error)}.") from error


@asynccontextmanager
async def open_transport(cluster: WatchedCluster, namespace: str, pod: str) -> AsyncIterator[paramiko.Transport]:
    """A verified SSH connection, logged in, within some 10 s. Raises Unreachable, HostKeyChanged or KeyRefused."""
    client = cluster.current_connection.client
    facts = await pod_keys.read_pod_identity(client, namespace, pod)
    expected = await pod_keys.read_release_keys(client, namespace, facts.key_secret)
    probed: KeyProbe | None = None
    try:
        probed = await pod_keys.probe_keys(client, namespace, pod)
    except NotAllowed:
        if not expected:
            raise
    expected = expected or (probed.served_keys or probed.file_keys if probed else ())
    found = await asyncio.to_thread(identities.find_identities, SshPaths.locate())
    taken = {facts.public_key, *(probed.authorized_keys if probed else ())}
    keys = sorted(found, key=lambda each: each.public_key not in taken)
    user = probed.user if probed else "root"
    async with open_connection(client.login, PodAddress.parse(namespace, f"pod/{pod}", ""), expected) as transport:
        await asyncio.to_thread(log_in, transport, user, keys)
        yield transport


@asynccontextmanager
async def open_connection(
    login: Login, address: PodAddress | LivePod, expected_keys: Collection[str]
) -> AsyncIterator[paramiko.Transport]:
    """An SSH connection to a rank with a verified host key, not yet logged in."""
    async with PortForwarder(login).open_socket(address, pod_keys.SSHD_PORT) as sock:
        transport = await asyncio.to_thread(start_transport, sock, expected_keys)
        try:
            check_host_key(transport, expected_keys)
            yield transport
        finally:
            await asyncio.to_thread(transport.close)


def _load_key(identity: Identity) -> paramiko.PKey | None:
    if identity.agent:
        return None
    try:
        return paramiko.PKey.from_path(identity.path)
    except (paramiko.SSHException, OSError, ValueError):  # not one that can be used without a question
        return None


def _format_error(error: BaseException) -> str:
    """A library's error text, phrased to end a sentence."""
    return (str(error).strip() or "the connection ended").rstrip(".")


_READ_REQUEST_BYTES = 1 << 15  # bytes of one answer; servers need not give more
_READ_BLOCK_BYTES = 64 * _READ_REQUEST_BYTES  # bytes that are asked for at a time
_MAX_PACKET_BYTES = 1 << 20  # bytes; servers answer with a quarter of it at most
_UNWANTED_BLOCK_TIMEOUT = 2.0  # seconds for which a block that is no longer wanted is waited for


class _LimitedSftpClient(paramiko.SFTPClient):
    """An SFTP client that limits packet sizes: paramiko would read a packet of any announced length."""

    def _read_all(self, n: int) -> bytes:
        if n > _MAX_PACKET_BYTES:
            raise paramiko.SSHException(f"the server announces a packet of {n} bytes")
        return super()._read_all(n)  # type: ignore[misc, no-any-return]


class SftpConnection:
    def __init__(self, client: paramiko.SFTPClient) -> None:
        self._client = client

    async def read_range(self, path: str, offset: int, size: int) -> AsyncGenerator[bytes, None]:
        with _translate_sftp_errors(path):
            file = await asyncio.to_thread(self._client.open, path, "rb")
            try:
                while size and (
                    data := await _run_uncancelled(_read_block, file, offset, min(_READ_BLOCK_BYTES, size))
                ):
                    data = data[:size]
                    size -= len(data)
                    offset += len(data)
                    yield data
            finally:
                await asyncio.to_thread(file.close)

    async def write_chunks(self, path: str, chunks: AsyncIterator[bytes], offset: int) -> None:
        with _translate_sftp_errors(path):
            file = await asyncio.to_thread(self._client.open, path, "r+b" if offset else "wb")
            try:
                file.set_pipelined(True)
                await asyncio.to_thread(file.seek, offset)
                async for data in chunks:
                    await asyncio.to_thread(file.write, data)
            finally:
                await asyncio.to_thread(file.close)


def _read_block(file: paramiko.SFTPFile, offset: int, size: int) -> bytes:
    """Up to `size` bytes from that offset; all requests are sent before the first reply is awaited."""
    end = offset + size
    return b"".join(
        file.readv([(at, min(_READ_REQUEST_BYTES, end - at)) for at in range(offset, end, _READ_REQUEST_BYTES)])
    )


async def _run_uncancelled(function: Callable[..., bytes], *arguments: object) -> bytes:
    """Run a function in a thread and wait for its end even when cancelled, since it uses the SSH connection."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_UNWANTED_BLOCK_TIMEOUT)
        raise


@asynccontextmanager
async def open_sftp(cluster: WatchedCluster, namespace: str, pod: str) -> AsyncIterator[SftpConnection]:
    async with open_transport(cluster, namespace, pod) as transport:
        with _translate_sftp_errors("SFTP"):
            client = await asyncio.to_thread(_LimitedSftpClient.from_transport, transport)
        if client is None:
            raise Unreachable("The SSH server has no SFTP.")
        channel = client.get_channel()
        if channel is not None:
            channel.settimeout(SSH_ANSWER_TIMEOUT * 3)
        try:
            yield SftpConnection(client)
        finally:
            await asyncio.to_thread(client.close)


@contextmanager
def _translate_sftp_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (paramiko.SSHException, EOFError, TimeoutError, ConnectionError) as error:
        raise Unreachable(f"The SFTP connection was closed: {str(error).strip('. ') or 'no answer'}.") from error
    except OSError as error:
        if str(error) == "Socket is closed":
            raise Unreachable("The SFTP connection was closed.") from error
        raise CopyFailed(f"{path}: {error.strerror or error}, says the SFTP server.") from error
