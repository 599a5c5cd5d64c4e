"""A real OpenSSH server on a port of this host: what port 2222 of every fake pod leads to."""

import getpass
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SshServer:
    """Keys and configuration in one folder; lets this user in with `client_key`."""

    folder: Path
    port: int
    program: str
    home: Path
    """Where an exec in a pod finds ~: the server takes the keys that are put there."""

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
            self._generate(name)
        shutil.copy(self.folder / "client.pub", self.folder / "authorized_keys")
        if os.geteuid() == 0:
            # Compiled into sshd: run as root it wants this empty folder, which a boot makes and a container lacks.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        configuration = self.folder / "sshd_config"
        configuration.write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.folder}/host\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys {self.home}/.ssh/authorized_keys\n"
            "StrictModes no\nPidFile none\nUsePAM no\n"
            # One server stands for that of every pod, and kwok keeps a connection open that its client has left.
            "MaxStartups 1000\nLoginGraceTime 30\n"
            "PasswordAuthentication no\nPermitRootLogin prohibit-password\nPrintMotd no\n"
            "Subsystem sftp internal-sftp\n"
        )
        return self.again()

    def again(self) -> list[str]:
        """The command once more, with the files as they are."""
        return [self.program, "-D", "-e", "-f", str(self.folder / "sshd_config")]

    def change_host_key(self) -> None:
        """Make another host key; the server has it when it is started the next time."""
        for name in ("host", "host.pub"):
            (self.folder / name).unlink()
        self._generate("host")

    def _generate(self, name: str) -> None:
        generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(self.folder / name)]
        subprocess.run(generate, check=True, capture_output=True)
