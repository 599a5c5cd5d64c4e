"""Programs of other packages that `make lab-test` runs and `make test` does not."""

import os
import shutil
import sys

PACKAGES = {
    "ssh": "openssh-client", "scp": "openssh-client", "sftp": "openssh-client", "ssh-add": "openssh-client",
    "ssh-agent": "openssh-client", "ssh-keygen": "openssh-client", "sshd": "openssh-server", "rsync": "rsync",
    "shellcheck": "shellcheck", "zsh": "zsh", "fish": "fish",
}  # fmt: skip
"""The Debian package of each."""


def find(name: str) -> str | None:
    """Where a program is, also where only root looks."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin")


def missing(names: tuple[str, ...] = tuple(PACKAGES)) -> str:
    """Which of these are not installed and what installs them, in one sentence; empty if all are there."""
    absent = [name for name in names if not find(name)]
    if not absent:
        return ""
    packages = " ".join(sorted({PACKAGES[name] for name in absent}))
    verb = "is" if len(absent) == 1 else "are"
    return f"{', '.join(absent)} {verb} not installed, which make lab-test needs: sudo apt-get install {packages}"


if __name__ == "__main__":
    sys.exit(missing() or 0)
