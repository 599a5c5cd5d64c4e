"""Imitates the output of `docker build` for a source archive, including where it would fail."""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import io
import re
import tarfile
from dataclasses import dataclass

_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_STEP_SECONDS = {"FROM": 6.0, "RUN": 5.0, "COPY": 1.0, "ADD": 1.0}
"""Practice seconds of each instruction; other instructions take half a second."""
_FAILING_COMMANDS = re.compile(r"(?:^|&&|;|\|\|)\s*(?:false|exit ([1-9]\d*))\b")
"""Commands that always fail: false, and exit with a code other than 0."""


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of output, and the seconds that pass before it."""

    text: str
    seconds: float = 0.05
    failure: str = ""  # why the build ends here


def docker_build_output(archive: bytes, args: list[str], tag: str) -> list[OutputLine]:
    """The lines of `docker build ARGS`; the last one fails if the build does."""
    try:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as packed:
            names = [each.name.removeprefix("./") for each in packed.getmembers()]
            wanted = _option_value(args, "--file", "-f") or "Dockerfile"
            if wanted not in names:
                words = f"unable to prepare context: lstat {wanted}: no such file or directory"
                return [OutputLine(words, 0.5, words)]
            member = packed.extractfile(packed.getmembers()[names.index(wanted)])
            text = member.read().decode(errors="replace") if member else ""
    except (OSError, tarfile.TarError, EOFError):
        return [OutputLine("error: the source is no gzipped tar archive", 0.5, "the source could not be unpacked")]
    given = dict(each.split("=", 1) for each in _option_values(args, "--build-arg") if "=" in each)
    lines = [OutputLine(f"Sending build context to Docker daemon  {len(archive) / 1000:.2f}kB", 0.5)]
    steps = _split_instructions(text)
    for number, step in enumerate(steps, 1):
        lines += _step_output(f"Step {number}/{len(steps)} : {step}", step, given, names)
        if lines[-1].failure:
            return lines
    made = hashlib.sha256(archive).hexdigest()[:12]
    return [*lines, OutputLine(f"Successfully built {made}"), OutputLine(f"Successfully tagged {tag}")]


def _step_output(head: str, step: str, given: dict[str, str], names: list[str]) -> list[OutputLine]:
    word, _, rest = step.partition(" ")
    word = word.upper()
    layer = hashlib.sha256(step.encode()).hexdigest()[:12]
    seconds = _STEP_SECONDS.get(word, 0.5)
    lines = [OutputLine(head, 0.2)]
    if word == "ARG" and "=" in rest:
        name, _, value = rest.partition("=")
        given.setdefault(name, value)
    elif word == "FROM":
        image = _VARIABLE.sub(lambda found: given.get(found[1], ""), rest).split(" ")[0]
        if "missing" in image or not image:
            why = f"manifest for {image} not found: manifest unknown"
            return [*lines, OutputLine(f"Error response from daemon: {why}", 1.0, why)]
        lines += [
            OutputLine(f"{image.rpartition(':')[2]}: Pulling from {image.partition('/')[2].rpartition(':')[0]}", 0.3)
        ]
        lines += [
            OutputLine(f"{layer[:12]}: Pull complete", seconds / 2),
            OutputLine(f"Status: Downloaded newer image for {image}", seconds / 2),
        ]
    elif word in {"COPY", "ADD"}:
        sources = [each for each in rest.split()[:-1] if not each.startswith("--")]
        for source in sources:
            if source != "." and not any(
                fnmatch.fnmatch(name, source.rstrip("/")) or name.startswith(f"{source.rstrip('/')}/") for name in names
            ):
                why = f"COPY failed: file not found in build context: stat {source}: file does not exist"
                return [*lines, OutputLine(why, 0.5, why)]
    elif word == "RUN":
        lines.append(OutputLine(f" ---> Running in {layer}", 0.3))
        if found := _FAILING_COMMANDS.search(rest):
            why = f"The command '/bin/sh -c {rest}' returned a non-zero code: {found[1] or 1}"
            return [*lines, OutputLine(why, seconds, why)]
        for package in _installed_packages(rest)[:6]:
            lines.append(OutputLine(f"Setting up {package} ...", seconds / 8))
    return [*lines, OutputLine(f" ---> {layer}", seconds / 4)]


def _split_instructions(text: str) -> list[str]:
    """The instructions, with continued lines joined and comments removed."""
    joined = ""
    found: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        joined += stripped.removesuffix("\\").strip() + " "
        if not stripped.endswith("\\"):
            found.append(" ".join(joined.split()))
            joined = ""
    return found


def _option_values(args: list[str], *names: str) -> list[str]:
    found = []
    for number, each in enumerate(args):
        name, cut, value = each.partition("=")
        if name in names:
            found.append(value if cut else args[number + 1] if number + 1 < len(args) else "")
    return found


def _option_value(args: list[str], *names: str) -> str:
    return next(iter(_option_values(args, *names)), "")


def _installed_packages(command: str) -> list[str]:
    """The packages that a shell command installs by apt or pip."""
    found: list[str] = []
    for part in re.split(r"&&|\|\||[;|]", command):
        words = part.split()
        if "install" in words[1:]:
            found += [each for each in words[words.index("install") + 1 :] if each[0].isalnum() and "://" not in each]
    return found
