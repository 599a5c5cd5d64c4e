"""~/.ssh, found by the account as ssh does and not by $HOME, a4's folder in it, and quoting. Blocking."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from console.errors import BadInput
from console.folders import atomic_write, file_lock, make_private

SSH_FOLDER_VARIABLE = "A4_SSH_FOLDER"  # environment variable that names a folder to use instead of ~/.ssh


class SshPaths:
    """Paths of the person's SSH folder and of a4's folder in it."""

    def __init__(self, user_folder: Path, own_folder: Path, *, is_default: bool = True) -> None:
        """`is_default`: whether `user_folder` is the folder that ssh reads by default."""
        self.user, self.own, self.is_default = user_folder, own_folder, is_default
        self.user_config = user_folder / "config"
        self.config = own_folder / "config"
        self.whole_config = own_folder / "config-for-F"  # ours, then the person's: for `ssh -F`
        self.known_hosts = own_folder / "known_hosts"
        self.jobs = own_folder / "jobs"  # one file per job: what the two above are made of
        self.own_key = own_folder / "id_ed25519"  # private key of our own pair, if one was made
        self.user_folder_mark = own_folder / "made-the-folder-above"  # stands while ~/.ssh is one that we made
        longest = len(os.fsencode(own_folder)) + 1 + _CONTROL_HASH_BYTES + _CONTROL_SUFFIX_BYTES
        self.sockets = f"{own_folder}/%C" if longest < _MAX_SOCKET_PATH_BYTES else ""  # ControlPath; empty if too long

    @classmethod
    def locate(cls) -> SshPaths:
        """~/.ssh with a4's folder in it; if ~/.ssh is not writable, a4's is in ~/.local/share/a4."""
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        named = os.environ.get(SSH_FOLDER_VARIABLE, "")
        user = Path(named).expanduser().absolute() if named else home / ".ssh"
        own = user / "a4"
        if not named and not own.is_dir() and not is_writable(user):
            data = os.environ.get("XDG_DATA_HOME", "")
            own = (Path(data) if data else home / ".local" / "share") / "a4" / "ssh"
        return cls(user, own, is_default=not named)

    def create_folders(self) -> None:
        """Create both folders with mode 0700. Raises BadInput if that fails."""
        try:
            made = not self.user.exists() and self.own.is_relative_to(self.user)
            if made:
                make_private(self.user)
            for folder in (self.own, self.jobs):
                make_private(folder)
                if folder.stat().st_mode & 0o077:
                    folder.chmod(0o700)
            if made:
                atomic_write(self.user_folder_mark, b"")
        except OSError as error:
            hint = f"Name another folder in the variable {SSH_FOLDER_VARIABLE}."
            raise BadInput(f"The folder {self.own} cannot be made: {error.strerror}.", hint) from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock on a4's folder among all processes of this account; creates the folder."""
        self.create_folders()
        with file_lock(self.config):
            yield


_CONTROL_HASH_BYTES, _CONTROL_SUFFIX_BYTES = 40, 18  # of ssh's %C, and of what ssh puts behind it while it connects
_MAX_SOCKET_PATH_BYTES = 104  # of macOS


def is_writable(folder: Path) -> bool:
    there = folder
    while not there.exists():
        if there.is_symlink():
            return False
        there = there.parent
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


_UNQUOTED_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./~-]+")


def quote_word(text: str) -> str:
    """Quote one word for an ssh config line. Raises BadInput for characters that no line can contain."""
    if not text.isprintable() or '"' in text or "\\" in text:
        hint = "Use a path without quotation marks, backslashes and control characters."
        raise BadInput(f"{text!r} cannot be written to an ssh config.", hint)
    return text if _UNQUOTED_WORD.fullmatch(text) else f'"{text}"'


def quote_path(text: str) -> str:
    """Quote a path for an option in which ssh expands %x and ${X}. BadInput if it contains ${ or unquotable text."""
    if "${" in text:
        raise BadInput(f"{text!r} cannot stand in an ssh config: ssh would take ${{ for a variable.")
    return quote_word(text.replace("%", "%%"))


def quote_command(argv: list[str]) -> str:
    """A command line for ProxyCommand: quoted for the shell, % doubled. Raises BadInput for control characters."""
    if not all(each.isprintable() for each in argv):
        raise BadInput("A path or context with a control character in it cannot be written to an ssh config.")
    return shlex.join(argv).replace("\\", "'\\\\'").replace("%", "%%")


def host_name(text: str) -> str:
    """A valid name for a Host line; other characters become a dash."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")
