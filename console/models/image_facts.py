"""What a registry says of an image before any pod has pulled it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_GOOGLE = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev|(?:[a-z0-9-]+\.)?gcr\.io")
"""Hosts that get Google's token: their whole names, so that no other domain ends like one of them."""
_DOCKER_HUB = "registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class Reference:
    """An image reference in its parts."""

    host: str
    path: str
    tag: str
    """A tag, or "sha256:..."."""

    @classmethod
    def of(cls, text: str) -> Reference:
        """Read as Docker reads it: no host means Docker Hub, no tag means latest."""
        name, _, digest = text.partition("@")
        head, slash, rest = name.partition("/")
        is_host = bool(slash) and ("." in head or ":" in head or head == "localhost")
        host, path = (head, rest) if is_host else (_DOCKER_HUB, name if slash else f"library/{name}")
        path, _, tag = path.rpartition(":") if ":" in path else (path, "", "")
        return cls(host, path, digest or tag or "latest")

    @property
    def google(self) -> bool:
        """Whether it lies in a registry of Google's."""
        return bool(_GOOGLE.fullmatch(self.host))

    @property
    def repository(self) -> tuple[str, str, str] | None:
        """Project, location and repository of Artifact Registry; None for other registries."""
        parts = self.path.split("/")
        if not self.google or not self.host.endswith("-docker.pkg.dev") or len(parts) < 3:
            return None
        return parts[0], self.host.removesuffix("-docker.pkg.dev"), parts[1]

    def __str__(self) -> str:
        return f"{self.host}/{self.path}{'@' if self.tag.startswith('sha256:') else ':'}{self.tag}"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image's configuration."""

    digest: str
    bytes: int
    """Compressed, as it is pulled."""
    architecture: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    history: tuple[str, ...] = ()
    """The commands that made it, as far as it tells them."""

    @property
    def cuda(self) -> str:
        """Version of CUDA that it says it has; empty if it says nothing."""
        return self.env.get("CUDA_VERSION") or self.labels.get("com.nvidia.cuda.version") or ""

    def shows(self, program: str) -> str:
        """By what it tells that a program is in it; empty: it tells nothing of it."""
        variables, words = _SIGNS[program]
        if named := next((name for name in variables if self.env.get(name)), ""):
            return f"{named}={self.env[named]}"
        return "a step of its build" if any(words.search(step) for step in self.history) else ""


_SIGNS = {
    "sshd": ((), re.compile(r"\bopenssh-server\b|\bsshd\b")),
    "mpirun": (("OPENMPI_VERSION", "MPI_HOME"), re.compile(r"\bopenmpi(?:-bin)?\b|\bmpirun\b|\bhpcx\b")),
    "torchrun": (("PYTORCH_VERSION", "PYTORCH_BUILD_VERSION"), re.compile(r"\bpip3? install\b.*\btorch\b")),
    "git": (("GIT_VERSION",), re.compile(r"\b(?:apt-get|apt|yum|dnf)\b.* install\b.*\bgit\b|\bgit clone\b", re.DOTALL)),
}
"""Programs -> variables that tell their version, and what stands in the step that brings them."""
