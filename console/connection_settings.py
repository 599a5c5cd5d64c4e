"""The settings from the command line, read once and passed on."""

from __future__ import annotations

from getpass import getuser
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

OWN_NAME = "you"  # stands for the name of the person at the console


class Settings(NamedTuple):
    """The cluster connection (kubeconfig, context, namespace), and whether changes are allowed."""

    kubeconfig: Path | None = None
    """The file of --kubeconfig or the practice cluster; None: KUBECONFIG, else ~/.kube/config, else in-cluster."""
    context: str = ""  # empty: the kubeconfig's current context
    namespace: str = ""
    """Namespace of actions and of lists without --all-namespaces; empty: the context's namespace."""
    read_only: bool = False
    practice: bool = False  # the cluster is the practice cluster, and every screen says so
    speed: float = 1.0  # how many times as fast as real time it runs


def login_name() -> str:
    """The user name on this machine; empty if the account has none."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user by number alone
        return ""
