"""Editors that work in a pod over SSH: their commands, links, and manual steps.

VS Code and its forks take `--remote ssh-remote+HOST FOLDER` and vscode://vscode-remote/ssh-remote+HOST/FOLDER; Zed
takes ssh://HOST/FOLDER; JetBrains Gateway reads the ssh config.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from console.errors import BadInput, ProgramFailed

EDITORS = ("code", "code-insiders", "codium", "cursor", "windsurf", "zed", "gateway")  # programs, most usual first


@dataclass(frozen=True, slots=True)
class SshPlan:
    """The files and programs that the setup of SSH to a rank would write and install, for the person to confirm."""

    namespace: str
    job: str
    rank: int
    ranks: int
    pod: str
    host: str  # name for ssh, such as "a4-train-1-0"
    user: str
    key_text: str  # the person's key in words
    makes_key: bool  # whether a key pair is made, for there is none that can be used
    adds_key: bool  # whether the pod lacks the key and gets it: this is what the person has to agree to
    config_path: str  # the person's ssh config
    adds_include: bool  # whether that file gets the one line that names our hosts
    include_line: str
    other_job: str = ""  # the job that has the short name already, where this one therefore has a longer name


@dataclass(frozen=True, slots=True)
class SshHost:
    namespace: str
    job: str
    rank: int
    host: str
    user: str
    folder: str
    command: tuple[str, ...]  # how ssh is called: with -F where the person's config could not be changed
    fingerprints: tuple[str, ...] = ()  # of the host keys that hold
    notes: tuple[str, ...] = ()  # what was set up or could not be, a sentence each


@dataclass(frozen=True, slots=True)
class Editor:
    name: str  # word on the command line: code, cursor, …
    title: str
    program: str = ""  # its program on this machine; empty if it is not in PATH
    command: tuple[str, ...] = ()  # what is run, where the program is there
    link: str = ""  # what opens it from a browser or a terminal; empty if there is no such link
    steps: tuple[str, ...] = ()  # what to do by hand


class StepState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"  # not tried, because a step before it failed


DOCTOR_STEPS = {  # steps of the doctor in their order, and their titles
    "ssh-config": "SSH config",
    "local-ports": "Local ports",
    "token": "Token",
    "api": "API server",
    "pod": "Pod",
    "container": "Container",
    "port": "Port 2222",
    "banner": "SSH banner",
    "host-key": "Host key",
    "login": "Login",
    "sftp": "SFTP",
    "editor": "Editor's server",
}


@dataclass(frozen=True, slots=True)
class SetupStep:
    name: str
    state: StepState
    seconds: float = 0.0
    found: str = ""  # what was found or went wrong, one sentence
    fix: str = ""  # what to do, one sentence; empty if nothing
    exit_code: int = 0  # of a command that ends with this step: 3 not allowed, 4 not reached, 1 for other failures

    @property
    def title(self) -> str:
        return DOCTOR_STEPS[self.name]


VSCODE_EDITORS = {  # program, title, the scheme of its links, and the extension that it needs
    "code": ("VS Code", "vscode", "Remote - SSH"),
    "code-insiders": ("VS Code Insiders", "vscode-insiders", "Remote - SSH"),
    "codium": ("VSCodium", "vscodium", "Open Remote - SSH"),
    "cursor": ("Cursor", "cursor", "Remote - SSH"),
    "windsurf": ("Windsurf", "windsurf", "Remote - SSH"),
}
EDITOR_TIMEOUT = 30.0  # seconds an editor's launcher may take; it returns at once and leaves the editor running


def list_editors(host: SshHost, folder: str = "") -> tuple[Editor, ...]:
    """All editors for that rank's `folder` (empty: the host's, else /), installed ones first. Raises BadInput."""
    found = [find_editor(name, host, folder) for name in EDITORS]
    return tuple(sorted(found, key=lambda each: not each.program))


def find_editor(name: str, host: SshHost, folder: str = "") -> Editor:
    """The editor of that name, to open `folder` (empty: the host's, else /). Raises BadInput if either is unknown."""
    if name not in EDITORS:
        raise BadInput(f"There is no editor {name}.", f"There are: {', '.join(EDITORS)}.")
    folder = folder or host.folder or "/"
    if not folder.startswith("/") or not folder.isprintable():
        raise BadInput(f"{folder!r} is not a folder of the pod.", "Give its whole path, such as /workspace.")
    if name == "gateway":
        return _jetbrains_gateway(host, folder)
    program = shutil.which(name) or (shutil.which("zeditor") if name == "zed" else "") or ""
    if name == "zed":
        link = f"ssh://{host.host}{quote(folder)}"
        steps = (
            f"Zed: Open Remote (ctrl-cmd-shift-o or alt-ctrl-shift-o), Connect New Server, `ssh {host.host}`.",
            f"Open {folder}.",
        )
        return Editor(
            name, "Zed", program, (program, link) if program else (), f"zed://ssh/{host.host}{quote(folder)}", steps
        )
    title, scheme, extension = VSCODE_EDITORS[name]
    authority = f"ssh-remote+{host.host}"
    command = (program, "--remote", authority, folder) if program else ()
    by_hand = (
        f"{title}: install the extension {extension}.",
        f"F1, Remote-SSH: Connect to Host…, {host.host}.",
        f"File, Open Folder…, {folder}.",
    )
    return Editor(name, title, program, command, f"{scheme}://vscode-remote/{authority}{quote(folder)}", by_hand)


def _jetbrains_gateway(host: SshHost, folder: str) -> Editor:
    """JetBrains Gateway, set up by hand: its dialog accepts host names of the ssh config, its links do not."""
    steps = (
        "Gateway: New Connection under SSH.",
        f"Username {host.user}, host {host.host}, port 22; authentication: OpenSSH config and authentication agent.",
        f"Choose an IDE, project folder {folder}.",
    )
    return Editor("gateway", "JetBrains Gateway", shutil.which("gateway") or "", (), "", steps)


def start_editor(chosen: Editor) -> None:
    """Start the editor's launcher and wait for it to return; blocking. Raises ProgramFailed."""
    try:
        done = subprocess.run(
            chosen.command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=EDITOR_TIMEOUT,
            check=False,
            start_new_session=True,
        )
    except OSError as error:
        raise ProgramFailed(f"{chosen.title} did not start: {error.strerror}.") from error
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(f"{chosen.title} has not opened within {EDITOR_TIMEOUT:.0f} s.", "Use its link.") from error
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = words[-1] if words else f"exit code {done.returncode}"
        raise ProgramFailed(f"{chosen.title} did not open: {why}.", "Use its link.", code=done.returncode)
