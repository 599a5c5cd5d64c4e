"""A way to a rank by SSH: what is ready, what the person is asked, what an editor needs, what the doctor found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

EDITORS = ("code", "code-insiders", "codium", "cursor", "windsurf", "zed", "gateway")
"""Editors that can work in a rank, by the names of their programs, most usual first."""


@dataclass(frozen=True, slots=True)
class SshPlan:
    """What would be set up for a rank, before anything is changed."""

    namespace: str
    job: str
    rank: int
    ranks: int
    pod: str
    host: str
    """Name for ssh, such as "a4-train-1-0"."""
    user: str
    folder: str
    """Where the work is in the pod."""
    key: str
    """The person's key in words."""
    makes_key: bool
    """Whether a key pair is made, for there is none that can be used."""
    adds_key: bool
    """Whether the pod lacks the key and gets it: this is what the person has to agree to."""
    config: str
    """The person's ssh config."""
    adds_line: bool
    """Whether that file gets the one line that names our hosts."""
    line: str
    """That line."""
    other: str = ""
    """The job that has the short name already, where this one therefore has a longer name."""


@dataclass(frozen=True, slots=True)
class SshHost:
    """A rank that ssh reaches by name."""

    namespace: str
    job: str
    rank: int
    host: str
    user: str
    folder: str
    command: tuple[str, ...]
    """How ssh is called: with -F where the person's config could not be changed."""
    fingerprints: tuple[str, ...] = ()
    """Of the host keys that hold."""
    notes: tuple[str, ...] = ()
    """What was set up or could not be, a sentence each."""


@dataclass(frozen=True, slots=True)
class Editor:
    """An editor that can work in the pod."""

    name: str
    """Word on the command line: code, cursor, …"""
    title: str
    program: str = ""
    """Its program on this machine; empty if it is not in PATH."""
    command: tuple[str, ...] = ()
    """What is run, where the program is there."""
    link: str = ""
    """What opens it from a browser or a terminal; empty if there is no such link."""
    steps: tuple[str, ...] = ()
    """What to do by hand."""


class StepState(StrEnum):
    """How a step of the doctor ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not tried, because a step before it failed."""


STEPS = {
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
"""Steps of the doctor in their order, and their titles."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the doctor."""

    name: str
    state: StepState
    seconds: float = 0.0
    found: str = ""
    """What was found or went wrong, one sentence."""
    fix: str = ""
    """What to do, one sentence; empty if nothing."""
    exit_code: int = 0
    """Of a command that ends with this step: 3 not allowed, 4 not reached, 1 for other failures."""

    @property
    def title(self) -> str:
        """Its title."""
        return STEPS[self.name]
