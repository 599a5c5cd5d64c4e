"""Finds the person's SSH keys: in the agent, in ~/.ssh, else a key pair of a4's own.

A key file with a passphrase that no agent holds is left alone: it would ask at every connection, and an editor that
connects in the background cannot answer. Private keys are never read here; ssh's own programs do. Everything blocks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import socket
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from console.attach.ssh.ssh_folder import SshPaths
from console.connection_settings import login_name
from console.errors import BadInput
from console.folders import atomic_write

DEFAULT_KEY_NAMES = (
    "id_ed25519",
    "id_ecdsa",
    "id_rsa",
    "google_compute_engine",
)  # in order of preference; the last is gcloud's
AGENT_TIMEOUT = 10.0  # seconds ssh's programs may take
INSTALL_OPENSSH = "Install OpenSSH's client (`ssh`, `ssh-keygen`)."


@dataclass(frozen=True, slots=True)
class Identity:
    """One of the person's key pairs, identified by its public key."""

    public_key: str  # "type base64"
    comment: str
    path: str  # what IdentityFile names: the private file, or a public one that stands for a key of the agent
    agent: bool = False
    is_own: bool = False  # whether a4 made it

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public_key)

    @property
    def public_line(self) -> str:
        return f"{self.public_key} {self.comment}".strip()

    @property
    def description(self) -> str:
        name = Path(self.path).name
        if self.is_own:
            return f"a4's own key ({self.fingerprint})"
        return f"{self.comment or name} of the agent" if self.agent else f"{name} ({self.fingerprint})"

    @property
    def needs_touch(self) -> bool:
        """Whether the key is in a security key that has to be touched for every connection."""
        return self.public_key.startswith("sk-")


def fingerprint(public_key: str) -> str:
    try:
        blob = base64.b64decode(public_key.split()[1], validate=True)
    except (IndexError, ValueError):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def parse_public_key(line: str) -> tuple[str, str]:
    """(public key, comment) of a line of a .pub file; two empty texts if it has no key."""
    words = line.split(None, 2)
    if len(words) < 2 or not fingerprint(" ".join(words[:2])):
        return "", ""
    return " ".join(words[:2]), words[2].strip() if len(words) > 2 else ""


def find_identities(places: SshPaths) -> list[Identity]:
    """All keys usable without a prompt, preferred ones first: the agent's, files, a4's own."""
    files = list(_file_identities(places))
    by_key = {each.public_key: each.path for each in files}
    held = [
        Identity(key, words, by_key.get(key) or _find_key_file(places, key), agent=True) for key, words in _agent_keys()
    ]
    held.sort(key=lambda each: each.needs_touch)
    known = {each.public_key for each in held}
    return [*held, *(each for each in files if each.public_key not in known)]


def choose_identity(identities: list[Identity], accepted_keys: Collection[str] = ()) -> Identity | None:
    """A key that the pod accepts already, else the first that needs no touch; None without keys."""
    taken = next((each for each in identities if each.public_key in accepted_keys), None)
    return taken or next((each for each in identities if not each.needs_touch), None)


def _agent_keys() -> Iterator[tuple[str, str]]:
    if not os.environ.get("SSH_AUTH_SOCK"):
        return
    for line in _command_output("ssh-add", "-L").splitlines():
        public, comment = parse_public_key(line)
        if public and not public.startswith("ssh-dss"):
            yield public, comment


def _find_key_file(ssh_paths: SshPaths, public_key: str) -> str:
    """The IdentityFile for a key of the agent: its own file in ~/.ssh if possible, else a public-key file of a4's."""
    for path in sorted(ssh_paths.user.glob("*.pub")):
        if path.is_file() and parse_public_key(_read_text(path))[0] == public_key:
            private = path.with_suffix("")
            return str(private if private.is_file() else path)
    name = fingerprint(public_key).removeprefix("SHA256:").replace("/", "_").replace("+", "-")
    return str(ssh_paths.own / f"agent-{name}.pub")


def _file_identities(ssh_paths: SshPaths) -> Iterator[Identity]:
    for path, own in [*((ssh_paths.user / name, False) for name in DEFAULT_KEY_NAMES), (ssh_paths.own_key, True)]:
        if not path.is_file():
            continue
        # Says the public half if and only if there is no passphrase.
        public, comment = parse_public_key(_command_output("ssh-keygen", "-y", "-P", "", "-f", str(path)))
        if public:
            comment = parse_public_key(_read_text(path.with_name(f"{path.name}.pub")))[1] or comment
            yield Identity(public, comment, str(path), is_own=own)


def read_named_key(path: Path) -> Identity:
    """The key in a private or public key file that the person named. Raises BadInput if it holds no key."""
    path = path.expanduser().absolute()
    private = path.with_suffix("") if path.suffix == ".pub" else path
    public, comment = parse_public_key(_read_text(private.with_name(f"{private.name}.pub")))
    if not public and private.is_file():
        public, comment = parse_public_key(_command_output("ssh-keygen", "-y", "-P", "", "-f", str(private)))
    if not public:
        raise BadInput(f"{path} is not a private key, or its public half {private.name}.pub is missing.")
    return Identity(public, comment, str(private if private.is_file() else path))


def create_own_key(ssh_paths: SshPaths) -> Identity:
    """A4's own ed25519 key pair, created if missing, while `ssh_paths` is locked. Raises BadInput if that fails."""
    if not ssh_paths.own_key.exists():
        comment = f"a4 {login_name() or 'user'}@{socket.gethostname()}"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(ssh_paths.own_key)]
        done = _run_command(command)
        if done.returncode:
            raise BadInput(f"No key pair could be made: {done.stderr.strip() or 'ssh-keygen failed'}.", INSTALL_OPENSSH)
    public, comment = parse_public_key(_command_output("ssh-keygen", "-y", "-P", "", "-f", str(ssh_paths.own_key)))
    if not public:
        raise BadInput(f"{ssh_paths.own_key} cannot be read as a key.", "Delete it; a4 makes another.")
    return Identity(public, comment, str(ssh_paths.own_key), is_own=True)


def save_public_key(ssh_paths: SshPaths, identity: Identity) -> None:
    """Write the public-key file for an agent key that has no file of its own."""
    path = Path(identity.path)
    if path.parent == ssh_paths.own and path.suffix == ".pub":
        atomic_write(path, f"{identity.public_line}\n".encode())


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not there, or not for us: then it is no key that can be used
        return ""


def _command_output(*command: str) -> str:
    done = _run_command(list(command))
    return done.stdout if done.returncode == 0 else ""


def _run_command(command: list[str]) -> subprocess.CompletedProcess[str]:
    quiet = {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=AGENT_TIMEOUT,
            check=False,
            env=quiet,
            start_new_session=True,  # a passphrase would be asked for on the terminal, past us
        )
    except FileNotFoundError as error:
        raise BadInput(f"`{command[0]}` is not installed.", INSTALL_OPENSSH) from error
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {AGENT_TIMEOUT:.0f} s")


def public_key_of(encoded: str) -> str:
    """The public key ("type base64") of a base64 private key in a Secret; empty if it is none."""
    try:
        pem = base64.b64decode(encoded, validate=True)
        load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in pem else load_pem_private_key
        public = load(pem, password=None).public_key()
        return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    except (binascii.Error, ValueError, TypeError, UnsupportedAlgorithm):
        return ""  # an error would repeat what it could not read
