"""Data types of Cloud Build's builds and of images in registries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MACHINES = ("e2-highcpu-32", "e2-highcpu-8", "e2-medium", "n1-highcpu-32", "n1-highcpu-8")  # the first is usual
DEFAULT_TIMEOUT = 7200  # seconds that a build may take, as in the documents: two hours
REGISTRY, NAME, TAG = "_ARTIFACT_REGISTRY", "_IMAGE_NAME", "_IMAGE_TAG"  # substitutions of every included build
RUNNING = frozenset({"PENDING", "QUEUED", "WORKING"})
_SUBSTITUTION = re.compile(r"\$\{?(?P<name>[A-Z_][A-Z0-9_]*)\}?")
_REPOSITORY = re.compile(r"^(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)$")


@dataclass(frozen=True, slots=True)
class Build:
    id: str
    project: str
    location: str  # a region, or "global"
    status: str  # QUEUED, WORKING, SUCCESS, FAILURE, TIMEOUT, CANCELLED, INTERNAL_ERROR, EXPIRED or PENDING
    why: str  # what Google says of a build that failed; else empty
    images: tuple[str, ...]  # with their tags; before a build has ended those that it is to make
    digests: tuple[str, ...]  # of what was pushed, in the order of `images`; none before the end
    substitutions: Mapping[str, str]
    machine: str
    time_out: float  # seconds
    created: float
    started: float
    ended: float  # seconds since the epoch; 0.0: not yet
    log_bucket: str  # gs://BUCKET of its log object; empty: there is none
    log_entries: bool  # whether its log is in Cloud Logging
    link: str  # Google's page about it
    tags: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        return self.status not in RUNNING

    @property
    def succeeded(self) -> bool:
        return self.status == "SUCCESS"

    def seconds(self, now: float) -> float:
        """How long it has run or ran; 0.0 before it started."""
        return (self.ended or now) - self.started if self.started else 0.0


@dataclass(frozen=True, slots=True)
class BuildLine:
    time: float  # seconds since the epoch; 0.0 if the log does not tell
    text: str


@dataclass(frozen=True, slots=True)
class BuildContext:
    """A folder that an image is built from."""

    name: str  # as it is asked for: "testbed"
    folder: Path
    title: str  # one sentence
    defaults: Mapping[str, str]  # substitutions that its build description has values for
    wanted: tuple[str, ...]  # all substitutions that it uses
    dockerfile: str = ""  # the file in it that was named; empty: as its build description says
    images: tuple[str, ...] = ()  # what its build description makes, substitutions unresolved


@dataclass(frozen=True, slots=True)
class BuildPlan:
    context: BuildContext
    project: str
    location: str
    substitutions: Mapping[str, str] = field(default_factory=dict)
    machine: str = MACHINES[0]
    time_out: int = DEFAULT_TIMEOUT

    @property
    def image(self) -> str:
        """The image or images that it builds; the folder's name if the description names none."""
        values = {**self.context.defaults, **self.substitutions, "PROJECT_ID": self.project, "LOCATION": self.location}

        def value(found: re.Match[str]) -> str:
            return values.get(found["name"], found[0])

        return ", ".join(_SUBSTITUTION.sub(value, each) for each in self.context.images) or self.context.name


@dataclass(frozen=True, slots=True)
class Repository:
    project: str
    location: str
    name: str
    format: str  # DOCKER, PYTHON, ...
    bytes: int

    @property
    def address(self) -> str:
        return f"{self.location}-docker.pkg.dev/{self.project}/{self.name}"


@dataclass(frozen=True, slots=True)
class Image:
    repository: str  # LOCATION-docker.pkg.dev/PROJECT/REPOSITORY
    name: str
    tags: tuple[str, ...]
    digest: str  # "sha256:..."
    bytes: int
    uploaded: float  # seconds since the epoch
    built: float

    @property
    def references(self) -> tuple[str, ...]:
        """Image references usable in a pod: one per tag, or by digest if there is no tag."""
        base = f"{self.repository}/{self.name}"
        return tuple(f"{base}:{tag}" for tag in self.tags) or (f"{base}@{self.digest}",)


@dataclass(frozen=True, slots=True)
class RegistrySurvey:
    repositories: tuple[Repository, ...]
    images: tuple[Image, ...]  # latest first
    unread: tuple[tuple[str, str], ...] = ()  # location or repository -> why it could not be read


def repository_parts(address: str) -> tuple[str, str, str] | None:
    """Project, location and name in LOCATION-docker.pkg.dev/PROJECT/REPOSITORY; None for another registry."""
    found = _REPOSITORY.match(address)
    return (found["project"], found["location"], found["name"]) if found else None


_GOOGLE = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev|(?:[a-z0-9-]+\.)?gcr\.io")  # whole names of hosts that get its token
_DOCKER_HUB = "registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class ImageReference:
    host: str
    path: str
    tag: str  # a tag, or "sha256:..."

    @classmethod
    def of(cls, text: str) -> ImageReference:
        """Parse a reference as Docker does: no host means Docker Hub, no tag means latest."""
        name, _, digest = text.partition("@")
        head, slash, rest = name.partition("/")
        is_host = bool(slash) and ("." in head or ":" in head or head == "localhost")
        host, path = (head, rest) if is_host else (_DOCKER_HUB, name if slash else f"library/{name}")
        path, _, tag = path.rpartition(":") if ":" in path else (path, "", "")
        return cls(host, path, digest or tag or "latest")

    @property
    def google(self) -> bool:
        return bool(_GOOGLE.fullmatch(self.host))

    @property
    def repository(self) -> tuple[str, str, str] | None:
        """(project, location, repository) in Artifact Registry; None for other registries."""
        parts = self.path.split("/")
        if not self.google or not self.host.endswith("-docker.pkg.dev") or len(parts) < 3:
            return None
        return parts[0], self.host.removesuffix("-docker.pkg.dev"), parts[1]

    def __str__(self) -> str:
        return f"{self.host}/{self.path}{'@' if self.tag.startswith('sha256:') else ':'}{self.tag}"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    digest: str
    bytes: int  # Compressed, as it is pulled
    architecture: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    history: tuple[str, ...] = ()  # the commands that made it, as far as it tells them

    @property
    def cuda(self) -> str:
        """The CUDA version according to its environment and labels; empty if unknown."""
        return self.env.get("CUDA_VERSION") or self.labels.get("com.nvidia.cuda.version") or ""

    def shows(self, program: str) -> str:
        """The evidence that the image contains a program; empty if there is none."""
        variables, words = _SIGNS[program]
        if named := next((name for name in variables if self.env.get(name)), ""):
            return f"{named}={self.env[named]}"
        return "a step of its build" if any(words.search(step) for step in self.history) else ""


_SIGNS = {  # programs -> variables that tell their version, and what stands in the step that brings them
    "sshd": ((), re.compile(r"\bopenssh-server\b|\bsshd\b")),
    "mpirun": (("OPENMPI_VERSION", "MPI_HOME"), re.compile(r"\bopenmpi(?:-bin)?\b|\bmpirun\b|\bhpcx\b")),
    "torchrun": (("PYTORCH_VERSION", "PYTORCH_BUILD_VERSION"), re.compile(r"\bpip3? install\b.*\btorch\b")),
    "git": (("GIT_VERSION",), re.compile(r"\b(?:apt-get|apt|yum|dnf)\b.* install\b.*\bgit\b|\bgit clone\b", re.DOTALL)),
}
