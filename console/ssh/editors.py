"""Editors that work in a pod over SSH: what is run, what opens them from a link, what is done by hand.

VS Code and its kin take `--remote ssh-remote+HOST FOLDER` and vscode://vscode-remote/ssh-remote+HOST/FOLDER; Zed takes
ssh://HOST/FOLDER; JetBrains Gateway reads the same ssh config as everybody.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.errors import BadInput, ProgramFailed
from console.models.attach import EDITORS, Editor

if TYPE_CHECKING:
    from console.models.attach import SshHost

OF_VSCODE = {
    "code": ("VS Code", "vscode"),
    "code-insiders": ("VS Code Insiders", "vscode-insiders"),
    "codium": ("VSCodium", "vscodium"),
    "cursor": ("Cursor", "cursor"),
    "windsurf": ("Windsurf", "windsurf"),
}
"""Program, title and the scheme of its links."""
ANSWER = 30.0
"""Seconds an editor's launcher may take; it returns at once and leaves the editor running."""
_EXTENSION = {
    "code": "Remote - SSH",
    "code-insiders": "Remote - SSH",
    "codium": "Open Remote - SSH",
    "cursor": "Remote - SSH",
    "windsurf": "Remote - SSH",
}


def editors(host: SshHost, folder: str = "") -> tuple[Editor, ...]:
    """All of them for that rank, those on this machine first."""
    found = [editor(name, host, folder) for name in EDITORS]
    return tuple(sorted(found, key=lambda each: not each.program))


def editor(name: str, host: SshHost, folder: str = "") -> Editor:
    """One of them; BadInput names those there are."""
    if name not in EDITORS:
        raise BadInput(f"There is no editor {name}.", f"There are: {', '.join(EDITORS)}.")
    folder = folder or host.folder or "/"
    if not folder.startswith("/") or not folder.isprintable():
        raise BadInput(f"{folder!r} is no folder of the pod.", "Give its whole path, such as /workspace.")
    if name == "gateway":
        return _gateway(host, folder)
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
    title, scheme = OF_VSCODE[name]
    authority = f"ssh-remote+{host.host}"
    command = (program, "--remote", authority, folder) if program else ()
    by_hand = (
        f"{title}: install the extension {_EXTENSION[name]}.",
        f"F1, Remote-SSH: Connect to Host…, {host.host}.",
        f"File, Open Folder…, {folder}.",
    )
    return Editor(name, title, program, command, f"{scheme}://vscode-remote/{authority}{quote(folder)}", by_hand)


def _gateway(host: SshHost, folder: str) -> Editor:
    """JetBrains Gateway has no link that takes a name of the ssh config; its dialog does."""
    steps = (
        "Gateway: New Connection under SSH.",
        f"Username {host.user}, host {host.host}, port 22; authentication: OpenSSH config and authentication agent.",
        f"Choose an IDE, project folder {folder}.",
    )
    return Editor("gateway", "JetBrains Gateway", shutil.which("gateway") or "", (), "", steps)


def start(chosen: Editor) -> None:
    """Run its program, which leaves the editor running and returns; blocking. Raises ProgramFailed."""
    try:
        done = subprocess.run(
            chosen.command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER, check=False,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise ProgramFailed(f"{chosen.title} did not start: {error.strerror}.") from error
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(f"{chosen.title} has not opened within {ANSWER:.0f} s.", "Use its link.") from error
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = words[-1] if words else f"exit code {done.returncode}"
        raise ProgramFailed(f"{chosen.title} did not open: {why}.", "Use its link.", code=done.returncode)
