"""Image builds, and the images of a registry."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MACHINES = ("e2-highcpu-32", "e2-highcpu-8", "e2-medium", "n1-highcpu-32", "n1-highcpu-8")
"""Machines that can be asked for to build on; the documents take the first."""
TIME_OUT = 7200
"""Seconds that a build may take, as in the documents: two hours."""
REGISTRY, NAME, TAG = "_ARTIFACT_REGISTRY", "_IMAGE_NAME", "_IMAGE_TAG"
"""The three substitutions that every build of the documents is made of."""
RUNNING = frozenset({"PENDING", "QUEUED", "WORKING"})
_SUBSTITUTION = re.compile(r"\$\{?(?P<name>[A-Z_][A-Z0-9_]*)\}?")
_REPOSITORY = re.compile(r"^(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)$")


@dataclass(frozen=True, slots=True)
class Build:
    """A build of Cloud Build."""

    id: str
    project: str
    location: str
    """A region, or "global"."""
    status: str
    """QUEUED, WORKING, SUCCESS, FAILURE, TIMEOUT, CANCELLED, INTERNAL_ERROR, EXPIRED or PENDING."""
    why: str
    """What Google says of a build that failed; else empty."""
    images: tuple[str, ...]
    """With their tags; before a build has ended those that it is to make."""
    digests: tuple[str, ...]
    """Of what was pushed, in the order of `images`; none before the end."""
    substitutions: Mapping[str, str]
    machine: str
    time_out: float
    """Seconds."""
    created: float
    started: float
    ended: float
    """Seconds since the epoch; 0.0: not yet."""
    log_bucket: str
    """gs://BUCKET of its log object; empty: there is none."""
    log_entries: bool
    """Whether its log is in Cloud Logging."""
    link: str
    """Google's page about it."""
    tags: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status not in RUNNING

    @property
    def succeeded(self) -> bool:
        """Whether its images are there."""
        return self.status == "SUCCESS"

    def seconds(self, now: float) -> float:
        """How long it has run, or ran; 0.0 before it began."""
        return (self.ended or now) - self.started if self.started else 0.0


@dataclass(frozen=True, slots=True)
class BuildLine:
    """A line of a build's log."""

    time: float
    """Seconds since the epoch; 0.0 if the log does not tell."""
    text: str


@dataclass(frozen=True, slots=True)
class BuildContext:
    """A folder that images are built from."""

    name: str
    """As it is asked for: "testbed"."""
    folder: Path
    title: str
    """One sentence."""
    defaults: Mapping[str, str]
    """Substitutions that its build description has values for."""
    wanted: tuple[str, ...]
    """All substitutions that it uses."""
    dockerfile: str = ""
    """The file in it that was named; empty: as its build description says."""
    images: tuple[str, ...] = ()
    """What its build description says that it makes, substitutions as they are written there."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """A build to be made."""

    context: BuildContext
    project: str
    location: str
    substitutions: Mapping[str, str] = field(default_factory=dict)
    machine: str = MACHINES[0]
    time_out: int = TIME_OUT

    @property
    def image(self) -> str:
        """The image or images that it makes; the name of its folder where the description names none."""
        values = {**self.context.defaults, **self.substitutions, "PROJECT_ID": self.project, "LOCATION": self.location}

        def value(found: re.Match[str]) -> str:
            return values.get(found["name"], found[0])

        return ", ".join(_SUBSTITUTION.sub(value, each) for each in self.context.images) or self.context.name


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of Artifact Registry."""

    project: str
    location: str
    name: str
    format: str
    """DOCKER, PYTHON, ..."""
    bytes: int

    @property
    def address(self) -> str:
        """What images in it begin with."""
        return f"{self.location}-docker.pkg.dev/{self.project}/{self.name}"


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a repository."""

    repository: str
    """LOCATION-docker.pkg.dev/PROJECT/REPOSITORY."""
    name: str
    tags: tuple[str, ...]
    digest: str
    """"sha256:..."."""
    bytes: int
    uploaded: float
    """Seconds since the epoch."""
    built: float

    @property
    def references(self) -> tuple[str, ...]:
        """What a pod's image may be: with each tag, or with the digest if it has none."""
        base = f"{self.repository}/{self.name}"
        return tuple(f"{base}:{tag}" for tag in self.tags) or (f"{base}@{self.digest}",)


@dataclass(frozen=True, slots=True)
class Registry:
    """What one look at the registries of a project found."""

    repositories: tuple[Repository, ...]
    images: tuple[Image, ...]
    """Latest first."""
    unread: tuple[tuple[str, str], ...] = ()
    """Location or repository -> why it could not be read."""


def repository_parts(address: str) -> tuple[str, str, str] | None:
    """Project, location and name in LOCATION-docker.pkg.dev/PROJECT/REPOSITORY; None for another registry."""
    found = _REPOSITORY.match(address)
    return (found["project"], found["location"], found["name"]) if found else None
