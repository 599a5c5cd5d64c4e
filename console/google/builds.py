"""Image builds: contexts, plans and their packing, a record of builds on this machine, and images in registries."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from console import assets
from console.errors import BadInput
from console.folders import atomic_write, file_lock, read_own_file
from console.kube.safe_yaml import load_yaml

BUILD_MACHINES = ("e2-highcpu-32", "e2-highcpu-8", "e2-medium", "n1-highcpu-32", "n1-highcpu-8")  # the first is usual
DEFAULT_BUILD_SECONDS = 7200  # seconds that a build may take, as in the documents: two hours
REGISTRY_KEY, NAME_KEY, TAG_KEY = "_ARTIFACT_REGISTRY", "_IMAGE_NAME", "_IMAGE_TAG"  # substitutions of every build
RUNNING_STATES = frozenset({"PENDING", "QUEUED", "WORKING"})
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
        return self.status not in RUNNING_STATES

    @property
    def succeeded(self) -> bool:
        return self.status == "SUCCESS"

    def seconds(self, now: float) -> float:
        """The build's duration so far or in all, in seconds; 0.0 before it has started."""
        return (self.ended or now) - self.started if self.started else 0.0


@dataclass(frozen=True, slots=True)
class BuildLine:
    time: float  # seconds since the epoch; 0.0 if the log does not tell
    text: str


@dataclass(frozen=True, slots=True)
class BuildContext:
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
    machine: str = BUILD_MACHINES[0]
    time_out: int = DEFAULT_BUILD_SECONDS

    @property
    def image(self) -> str:
        """The names of the images to be built; the folder's name if the build description has none."""
        values = {**self.context.defaults, **self.substitutions, "PROJECT_ID": self.project, "LOCATION": self.location}

        def value(match: re.Match[str]) -> str:
            return values.get(match["name"], match[0])

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


_GOOGLE_REGISTRY_HOST = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev|(?:[a-z0-9-]+\.)?gcr\.io")  # it gets Google's token
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
        return bool(_GOOGLE_REGISTRY_HOST.fullmatch(self.host))

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
        """The image's CUDA version by its environment and labels; empty if unknown."""
        return self.env.get("CUDA_VERSION") or self.labels.get("com.nvidia.cuda.version") or ""

    def evidence_of(self, program: str) -> str:
        """Evidence that the image contains a program: a variable, or a build step that installs it; empty if none."""
        variables, words = _PROGRAM_VERSIONS[program]
        if named := next((name for name in variables if self.env.get(name)), ""):
            return f"{named}={self.env[named]}"
        return "a step of its build" if any(words.search(step) for step in self.history) else ""


_PROGRAM_VERSIONS = {  # programs -> variables that tell their version, and what stands in the step that brings them
    "sshd": ((), re.compile(r"\bopenssh-server\b|\bsshd\b")),
    "mpirun": (("OPENMPI_VERSION", "MPI_HOME"), re.compile(r"\bopenmpi(?:-bin)?\b|\bmpirun\b|\bhpcx\b")),
    "torchrun": (("PYTORCH_VERSION", "PYTORCH_BUILD_VERSION"), re.compile(r"\bpip3? install\b.*\btorch\b")),
    "git": (("GIT_VERSION",), re.compile(r"\b(?:apt-get|apt|yum|dnf)\b.* install\b.*\bgit\b|\bgit clone\b", re.DOTALL)),
}


BUILD_DESCRIPTIONS = ("cloudbuild.yaml", "cloudbuild.yml", "cloudbuild.json")
MAX_CONTEXT_BYTES = 1 << 30  # bytes in a folder beyond which it is surely another one that was meant
MAX_BUILD_SECONDS = 86400  # seconds that Cloud Build lets a build take
_IGNORED_NAMES = {".git", "__pycache__", ".venv", "node_modules"}
_SUBSTITUTION_USE = re.compile(r"\$\{?(_[A-Z][A-Z0-9_]*)\}?")
_VALID_IMAGE_NAME = re.compile(r"^[a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*$")
_VALID_TAG = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")
_IMAGE = f"${{{REGISTRY_KEY}}}/${{{NAME_KEY}}}:${{{TAG_KEY}}}"


def bundled_contexts() -> tuple[BuildContext, ...]:
    folders = sorted(each for each in (assets.launchers_folder() / "images").iterdir() if each.is_dir())
    return tuple(read_context(each) for each in folders)


def read_context(path: Path) -> BuildContext:
    """The build context in a folder, or around a Dockerfile. Raises BadInput if there is none or it is broken."""
    folder = path if path.is_dir() else path.parent
    if not path.exists():
        raise BadInput(f"There is no folder {path}.", "Name a folder with a Dockerfile, or one of `a4 images`.")
    dockerfile = "" if path.is_dir() else path.name
    described = read_build_description(folder, dockerfile)
    given = described.get("substitutions") or {}
    if not isinstance(given, dict):
        raise BadInput(f"The substitutions of {folder} are not NAME: VALUE pairs.", "Write them as _NAME: value.")
    defaults = {str(name): str(value) for name, value in given.items()}
    used = dict.fromkeys([*_SUBSTITUTION_USE.findall(repr(described)), *defaults])
    title = _read_title(folder / "Dockerfile" if path.is_dir() else path)
    return BuildContext(
        folder.resolve().name, folder, title, defaults, tuple(used), dockerfile, _image_names(described)
    )


def _image_names(described: Mapping[str, Any]) -> tuple[str, ...]:
    """The images that a build description pushes, else those that its steps tag."""
    images = described.get("images")
    if isinstance(images, list) and images:
        return tuple(map(str, images))
    found = []
    for step in described["steps"]:
        words = [str(each) for each in step.get("args") or ()] if isinstance(step, dict) else []
        for word, after in zip(words, [*words[1:], ""], strict=False):
            if word.startswith("--tag=") or word in {"-t", "--tag"}:
                found.append(word.removeprefix("--tag=") if "=" in word else after)
    return tuple(dict.fromkeys(found))


def read_build_description(folder: Path, dockerfile: str = "") -> dict[str, Any]:
    """The build description: cloudbuild.yml, else one step for the Dockerfile. Raises BadInput if broken or missing."""
    for name in () if dockerfile else BUILD_DESCRIPTIONS:
        if (folder / name).is_file():
            return _read_description(folder / name)
    dockerfile = dockerfile or "Dockerfile"
    if not (folder / dockerfile).is_file():
        raise BadInput(f"{folder} has no {dockerfile}.", f"It needs one, or a {BUILD_DESCRIPTIONS[0]}.")
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-") or "image"
    return {
        "steps": [
            {"name": "gcr.io/cloud-builders/docker", "args": ["build", f"--tag={_IMAGE}", f"--file={dockerfile}", "."]}
        ],
        "images": [_IMAGE],
        "substitutions": {NAME_KEY: name, TAG_KEY: "latest"},
        "options": {"logging": "CLOUD_LOGGING_ONLY"},
    }


def _read_description(path: Path) -> dict[str, Any]:
    import yaml  # pages that only list builds do not wait for it

    try:
        found = load_yaml(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise BadInput(f"{path} cannot be read: {why}.") from error
    if not isinstance(found, dict) or not isinstance(found.get("steps"), list):
        raise BadInput(f"{path} is not a build configuration.", "It needs a list of steps.")
    return found


def _read_title(dockerfile: Path) -> str:
    try:
        with dockerfile.open(errors="replace") as file:
            first = file.readline().strip()
    except OSError:
        return ""
    return first.removeprefix("#").strip() if first.startswith("#") and not first.startswith("# syntax") else ""


def plan_problems(plan: BuildPlan) -> tuple[tuple[str, str], ...]:
    """The reasons why a plan cannot be built, each as (substitution it concerns or empty, sentence)."""
    return tuple(_iter_problems(plan))


def _iter_problems(plan: BuildPlan) -> Iterator[tuple[str, str]]:
    values, wanted = {**plan.context.defaults, **plan.substitutions}, plan.context.wanted
    for name in values:
        if name not in wanted:
            yield name, f"{plan.context.name} has no substitution {name}: it uses {', '.join(wanted) or 'none'}."
    for name in wanted:
        if not values.get(name):
            hint = ": LOCATION-docker.pkg.dev/PROJECT/REPOSITORY" if name == REGISTRY_KEY else ""
            yield name, f"{name} has no value{hint}."
    if (registry := values.get(REGISTRY_KEY)) and REGISTRY_KEY in wanted and repository_parts(registry) is None:
        words = f"{registry} is not a repository of Artifact Registry"
        yield REGISTRY_KEY, f"{words}: it is written LOCATION-docker.pkg.dev/PROJECT/REPOSITORY."
    if (image := values.get(NAME_KEY)) and NAME_KEY in wanted and not _VALID_IMAGE_NAME.match(image):
        yield (NAME_KEY, f"{image} cannot be the name of an image: small letters, digits and . _ - between them.")
    if (tag := values.get(TAG_KEY)) and TAG_KEY in wanted and not _VALID_TAG.match(tag):
        yield TAG_KEY, f"{tag} cannot be a tag: letters, digits, _ . -, at most 128."
    if not 1 <= plan.time_out <= MAX_BUILD_SECONDS:
        yield "", "A build may take from a second to 24 hours."


def list_files(folder: Path) -> list[Path]:
    """The files to upload. Raises BadInput if the folder is implausibly large."""
    found: list[Path] = []
    size = 0
    for path in sorted(folder.rglob("*")):
        if _IGNORED_NAMES & set(path.relative_to(folder).parts) or not (path.is_file() or path.is_symlink()):
            continue
        found.append(path)
        size += path.lstat().st_size
        if size > MAX_CONTEXT_BYTES:
            words = f"{folder} holds more than {MAX_CONTEXT_BYTES >> 30} GiB."
            raise BadInput(words, "Everything in it is uploaded to the builder: name the folder of the Dockerfile.")
    return found


def pack_context(folder: Path, target: Path) -> int:
    """Pack a folder as tar.gz without owners; returns the number of files. Blocking."""
    found = list_files(folder)
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
        tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in found:
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return len(found)


MAX_BUILT_IMAGES = 50


@dataclass(frozen=True, slots=True)
class BuiltImage:
    image: str
    build: str
    project: str
    location: str
    status: str
    moment: float  # of the last change of its status, as far as it is known; seconds since the epoch

    @property
    def under_way(self) -> bool:
        return self.status in RUNNING_STATES


def read_built_images(path: Path) -> tuple[BuiltImage, ...]:
    """The recorded images, newest first; empty if there is no valid file."""
    try:
        return tuple(BuiltImage(**each) for each in json.loads(read_own_file(path)))
    except (OSError, ValueError, TypeError):
        return ()


def record_builds(path: Path, builds: list[Build]) -> None:
    """Add the images of builds to the record file; an error in writing it is ignored."""
    with suppress(OSError), file_lock(path):
        known = {(each.build, each.image): each for each in read_built_images(path)}
        before = dict(known)
        for build in builds:
            for image in build.images:
                moment = build.ended or build.created
                new = BuiltImage(image, build.id, build.project, build.location, build.status, moment)
                old = known.get((build.id, image), new)
                known[build.id, image] = replace(old, status=build.status, moment=moment)
        if known != before:
            _write_record(path, sorted(known.values(), key=lambda each: -each.moment)[:MAX_BUILT_IMAGES])


def forget_build(path: Path, build: str) -> None:
    """Remove a build from the record file, after Google answered that it does not exist."""
    with suppress(OSError), file_lock(path):
        _write_record(path, [each for each in read_built_images(path) if each.build != build])


def _write_record(path: Path, images: list[BuiltImage]) -> None:
    atomic_write(path, json.dumps([asdict(each) for each in images], indent=1).encode())
