"""Writes jobs' ssh config entries and known_hosts files, and the Include line in the person's ssh config.

Nothing else of the person's file is changed: not its line ends, its encoding, its mode, nor the link it may be.
Everything here blocks. Whoever changes something holds the lock of `SshPaths`.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from console.attach.ssh import ssh_folder
from console.attach.ssh.ssh_folder import SshPaths, quote_word
from console.errors import BadInput, Unreadable
from console.folders import atomic_write, read_own_file

INCLUDE_MARK = b"# a4 put this line and the next one here; `a4 ssh --undo` takes both away"
CREATED_MARK = b"# a4 made this file for the next line; `a4 ssh --undo` takes it away"


def include_line(ssh_paths: SshPaths) -> str:
    """The Include line with an absolute path, since ssh expands ~ from the account, not from $HOME."""
    return f"Include {quote_word(str(ssh_paths.config))}"


def is_included(ssh_paths: SshPaths) -> bool:
    """Whether the person's ssh config already includes a4's entries."""
    try:
        content = ssh_paths.user_config.read_bytes()
    except OSError:  # then ssh does not read it either
        return False
    for each in content.splitlines():
        first = each.strip().partition(b" ")[0].partition(b"\t")[0].partition(b"=")[0].lower()
        if first in {b"host", b"match"}:  # what follows holds for some hosts only
            return False
        if each.strip() == include_line(ssh_paths).encode():
            return True
    return False


def add_include(ssh_paths: SshPaths) -> bool:
    """Add the Include line on top of the person's config; returns whether it was missing. BadInput if not writable."""
    if is_included(ssh_paths):
        return False
    remove_include(ssh_paths)  # a line that leads elsewhere
    path = ssh_paths.user_config
    there = path.exists()
    content = _read_bytes(path)
    end = b"\r\n" if content.partition(b"\n")[0].endswith(b"\r") else b"\n"
    head = (INCLUDE_MARK if there else CREATED_MARK) + end + include_line(ssh_paths).encode() + end
    try:
        _replace_config(path, head + content, there)
    except OSError as error:
        hint = f"Add `{include_line(ssh_paths)}` as its first line yourself, or use `ssh -F {ssh_paths.whole_config}`."
        raise BadInput(f"{path} cannot be changed: {error.strerror}.", hint) from error
    return True


def remove_include(ssh_paths: SshPaths) -> bool:
    """Remove the Include line, and the file if a4 made it; returns whether it was there. BadInput if not writable."""
    path = ssh_paths.user_config
    content = _read_bytes(path)
    kept, made, found = [], False, False
    lines = content.splitlines(keepends=True)
    for at, each in enumerate(lines):
        if each.strip() in {INCLUDE_MARK, CREATED_MARK}:
            made = made or each.strip() == CREATED_MARK
            found = True
            continue
        after_mark = at > 0 and lines[at - 1].strip() in {INCLUDE_MARK, CREATED_MARK}
        if not (after_mark and each.lstrip().lower().startswith(b"include ")):
            kept.append(each)
    if not found:
        return False
    try:
        if made and not kept:
            path.unlink()
        else:
            _replace_config(path, b"".join(kept), True)
    except OSError as error:
        hint = "Delete the two lines of a4 in it yourself."
        raise BadInput(f"{path} cannot be changed: {error.strerror}.", hint) from error
    return True


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.", "Make it a file that you may read.") from error


def _replace_config(path: Path, content: bytes, there: bool) -> None:
    """Write the ssh config, through a link, in its old mode if `there`; in place if not replaceable. Raises OSError."""
    target = path.resolve()
    if not there:
        atomic_write(target, content)
        return
    about = target.stat()
    if about.st_nlink > 1 or about.st_uid != os.getuid():
        target.write_bytes(content)
        return
    if not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied")
    try:
        atomic_write(target, content, stat.S_IMODE(about.st_mode))
    except OSError:
        target.write_bytes(content)


class PodKeys(msgspec.Struct, frozen=True):
    """The pod that a rank had when it was last reached, with its host keys."""

    uid: str
    restarts: int = 0
    keys: tuple[str, ...] = ()  # host keys of this pod alone, "type base64"; empty: the release's hold


class SshHostEntry(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # HostKeyAlias in known_hosts, and name of the file
    suffix: str = ""  # what follows the rank in a host's name, where another job of this name was first
    kubeconfig: str = ""  # empty: the pod's own account
    many: bool = False  # whether `kubeconfig` is a list of files, as in the variable KUBECONFIG
    context: str
    namespace: str
    job: str
    jobset_uid: str = ""
    ranks: int = 1
    program: tuple[str, ...] = ("a4",)  # how a4 is started, by its whole path
    path: str = ""  # folders that a4 needs in PATH to log in, before the others
    user: str = "root"
    folder: str = ""  # where the work is, as seen in the pod
    identity: str = ""  # file of the person's key: private, or public if the agent holds it
    public_key: str = ""  # its public half, "type base64 comment"
    install: bool = False  # whether the person agreed that pods of this job which lack the key get it
    share: bool = False  # whether connections are shared (ControlMaster)
    practice: bool = False
    release_keys: tuple[str, ...] = ()  # host keys that the release's Secret names for all its pods, "type base64"
    pods: dict[str, PodKeys] = msgspec.field(default_factory=dict)  # by rank

    def host(self, rank: int) -> str:
        return f"a4-{self.job}-{rank}{self.suffix}"

    @property
    def is_unreachable(self) -> bool:
        """Whether the entry's cluster cannot be reached any more, because its kubeconfig is gone."""
        return bool(self.kubeconfig) and not self.many and not Path(self.kubeconfig).exists()

    def belongs_to(self, kubeconfig: str, context: str, namespace: str, job: str) -> bool:
        mine = (self.kubeconfig, self.context, self.namespace, self.job)
        return mine == (kubeconfig, context, namespace, job)

    def known_hosts_lines(self) -> list[str]:
        keys = [*self.release_keys, *(key for rank in sorted(self.pods) for key in self.pods[rank].keys)]
        return [f"{self.name} {key}" for key in dict.fromkeys(keys)]


def load_entry(ssh_paths: SshPaths, name: str) -> SshHostEntry | None:
    path = ssh_paths.jobs / f"{name}.json"
    try:
        return msgspec.json.decode(read_own_file(path), type=SshHostEntry)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise Unreadable(f"{path} cannot be read: {error}.", "Delete it and run `a4 ssh` again.") from error


def load_entries(ssh_paths: SshPaths) -> list[SshHostEntry]:
    found = (load_entry(ssh_paths, path.stem) for path in sorted(ssh_paths.jobs.glob("*.json")))
    return [each for each in found if each is not None]


def save_entry(ssh_paths: SshPaths, entry: SshHostEntry) -> None:
    list(format_job(ssh_paths, entry))  # BadInput before the entry is kept, which is then in the way of all others
    atomic_write(ssh_paths.jobs / f"{entry.name}.json", msgspec.json.format(msgspec.json.encode(entry), indent=1))
    write_config_and_known_hosts(ssh_paths)


def remove_entry(ssh_paths: SshPaths, names: list[str]) -> None:
    for name in names:
        (ssh_paths.jobs / f"{name}.json").unlink(missing_ok=True)
    if names:
        write_config_and_known_hosts(ssh_paths)


def write_config_and_known_hosts(ssh_paths: SshPaths) -> None:
    """Write a4's ssh config and known_hosts file atomically."""
    entries = load_entries(ssh_paths)
    known = [line for entry in entries for line in entry.known_hosts_lines()]
    atomic_write(ssh_paths.known_hosts, "".join(f"{line}\n" for line in known).encode())
    head = "# Written by a4: changes made here are overwritten. `a4 ssh --undo` removes all of it.\n"
    blocks = ["\n".join(format_job(ssh_paths, entry)) + "\n" for entry in entries]
    atomic_write(ssh_paths.config, "\n".join([head, *blocks]).encode())
    others = [ssh_paths.user_config, "/etc/ssh/ssh_config"]
    lines = [f"Include {ssh_folder.quote_word(str(each))}" for each in (ssh_paths.config, *others)]
    atomic_write(ssh_paths.whole_config, "".join(f"{line}\n" for line in lines).encode())


def format_job(ssh_paths: SshPaths, entry: SshHostEntry) -> Iterator[str]:
    """Yield the config lines of one job: common options, then each rank's ProxyCommand."""
    where = f"namespace {entry.namespace}, context {entry.context}"
    yield f"# {entry.job}: {where}".replace("\n", " ")
    yield "Host " + " ".join(entry.host(rank) for rank in range(entry.ranks))
    for option, value in ssh_options(ssh_paths, entry):
        yield f"    {option} {value}"
    for rank in range(entry.ranks):
        yield f"Host {entry.host(rank)}"
        yield f"    ProxyCommand {ssh_folder.quote_command(proxy_command(entry, rank))}"


def ssh_options(ssh_paths: SshPaths, entry: SshHostEntry) -> Iterator[tuple[str, str]]:
    """Yield the ssh options of a job's ranks. They precede the person's own, so they win; host keys are checked."""
    yield "User", ssh_folder.quote_word(entry.user)
    yield "Port", "2222"
    if entry.identity:
        yield "IdentityFile", ssh_folder.quote_path(entry.identity)
        yield "IdentitiesOnly", "yes"
    yield "PreferredAuthentications", "publickey"
    yield "HostKeyAlias", entry.name
    yield "UserKnownHostsFile", ssh_folder.quote_path(str(ssh_paths.known_hosts))
    yield "GlobalKnownHostsFile", "/dev/null"
    yield "StrictHostKeyChecking", "yes"
    yield "UpdateHostKeys", "no"
    yield "VerifyHostKeyDNS", "no"
    yield "CheckHostIP", "no"
    # Whoever controls the image may use what is forwarded: nothing is, whatever `Host *` says.
    yield "ForwardAgent", "no"
    yield "ForwardX11", "no"
    yield "PermitLocalCommand", "no"
    # What a person's `Host *` starts on machines would come instead of the command that is asked for.
    yield "RemoteCommand", "none"
    yield "RequestTTY", "auto"
    # `a4 proxy` waits up to a minute for a pod that is being replaced.
    yield "ConnectTimeout", "90"
    yield "ServerAliveInterval", "10"
    yield "ServerAliveCountMax", "3"
    if entry.share and ssh_paths.sockets:
        yield "ControlMaster", "auto"
        yield "ControlPath", ssh_folder.quote_word(ssh_paths.sockets)
        yield "ControlPersist", "60"
    else:  # a master of the person's own would be one for all pods whose names look alike to it
        yield "ControlPath", "none"


def proxy_command(entry: SshHostEntry, rank: int) -> list[str]:
    """The ProxyCommand of a rank; paths and context are written out, so that it works in any environment."""
    pinned = [f"KUBECONFIG={entry.kubeconfig}"] if entry.many else []
    pinned += [f"PATH={entry.path}"] if entry.path else []
    file = ["--kubeconfig", entry.kubeconfig] if entry.kubeconfig and not entry.many else []
    argv = [*(["env", *pinned] if pinned else []), *entry.program, "proxy", *file]
    argv += ["--context", entry.context, "-n", entry.namespace, "--entry", entry.name]
    return [*argv, entry.job, str(rank)]


def remove_ssh_entries() -> tuple[str, ...]:
    """Remove a4's ssh entries and Include line, but not its key pair; returns a sentence per change. Blocking."""
    places = SshPaths.locate()
    done = []
    if remove_include(places):
        done.append(f"{places.user_config} was restored.")
    if places.own.is_dir():
        with places.lock():
            made_above = places.user_folder_mark.exists()
            for path in (places.config, places.whole_config, places.known_hosts, places.user_folder_mark):
                path.unlink(missing_ok=True)
            shutil.rmtree(places.jobs, ignore_errors=True)
            for path in places.own.glob("agent-*.pub"):
                path.unlink()
        done.append("The hosts of all jobs were removed.")
        if places.own_key.exists():
            done.append(f"The key pair {places.own_key} stays: pods may have its public key. Delete it if not needed.")
        else:
            shutil.rmtree(places.own, ignore_errors=True)
            if made_above and not any(places.user.iterdir()):
                places.user.rmdir()
    return tuple(done) or ("There was nothing to remove.",)
