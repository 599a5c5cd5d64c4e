"""A real OpenSSH server on a port of this host: what port 2222 of every fake pod leads to."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.lab.build import LabError

INSTALL = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "openssh-server")


def find_sshd() -> str:
    """The server's program; as root on a machine with apt it is installed when missing."""
    if found := _search():
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (("apt-get", "update", "-qq"), INSTALL):
            subprocess.run(command, env=quiet, capture_output=True)
        if found := _search():
            return found
    raise LabError(
        "The lab needs OpenSSH's server (`sshd`), which is not installed: sudo apt-get install openssh-server"
    )


def _search() -> str | None:
    return shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin:{os.environ.get('PATH', '')}")


@dataclass(frozen=True, slots=True)
class SshServer:
    """Keys and configuration in one folder; lets this user in with `client_key`."""

    folder: Path
    port: int
    program: str

    @property
    def client_key(self) -> Path:
        return self.folder / "client"

    @property
    def user(self) -> str:
        return getpass.getuser()

    def command(self) -> list[str]:
        """Make the keys and the configuration, and give the command that serves them."""
        self.folder.mkdir(parents=True)
        for name in ("host", "client"):
            generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(self.folder / name)]
            subprocess.run(generate, check=True, capture_output=True)
        shutil.copy(self.folder / "client.pub", self.folder / "authorized_keys")
        if os.geteuid() == 0:
            # Compiled into sshd: run as root it wants this empty folder, which a boot makes and a container lacks.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        configuration = self.folder / "sshd_config"
        configuration.write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.folder}/host\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nPidFile none\nUsePAM no\n"
            "PasswordAuthentication no\nPermitRootLogin prohibit-password\nPrintMotd no\n"
            "Subsystem sftp internal-sftp\n"
        )
        return [self.program, "-D", "-e", "-f", str(configuration)]
