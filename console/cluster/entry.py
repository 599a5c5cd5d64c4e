"""A cluster's entry in a kubeconfig: one of three parts, put beside what is there, and nothing else of it changed."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from console.errors import BadKubeconfig
from console.folders import make_private
from console.models.plain_yaml import load_yaml


@dataclass(frozen=True, slots=True)
class Entry:
    """A cluster, its user and its context, all of one name; log-in is by a program, so there is no secret in it."""

    name: str
    server: str
    authority: str
    """Base64 of PEM; empty: a certificate that everybody trusts."""
    command: str
    arguments: tuple[str, ...] = ()

    def parts(self) -> dict[str, dict[str, Any]]:
        """List of the kubeconfig -> what is put into it."""
        cluster = {"server": self.server}
        if self.authority:
            cluster["certificate-authority-data"] = self.authority
        program: dict[str, Any] = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": self.command,
            "interactiveMode": "IfAvailable",
            "provideClusterInfo": True,
        }
        if self.arguments:
            program["args"] = list(self.arguments)
        return {
            "clusters": {"name": self.name, "cluster": cluster},
            "users": {"name": self.name, "user": {"exec": program}},
            "contexts": {"name": self.name, "context": {"cluster": self.name, "user": self.name}},
        }


def usual_file() -> Path:
    """The file that kubectl would write to."""
    listed = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(listed[0]).expanduser() if listed else Path.home() / ".kube" / "config"


def write(path: Path, entry: Entry) -> bool:
    """Put the entry in, in place of one of the same name, and make it current where nothing is; whether it was there.

    Blocking. The file is replaced in one step and only its owner can read it. Raises BadKubeconfig.
    """
    path = path.expanduser().resolve()  # a link stays a link
    text = _read(path)
    config = _parsed(path, text)
    replaced = False
    for plural, part in entry.parts().items():
        listed = config.setdefault(plural, [])
        if listed is None:
            listed = config[plural] = []
        if not isinstance(listed, list):
            raise BadKubeconfig(f"In the kubeconfig {path}, {plural} is no list.", "Mend it, or name another file.")
        at = next(
            (n for n, each in enumerate(listed) if isinstance(each, dict) and each.get("name") == entry.name), None
        )
        if at is None:
            listed.insert(0, part)
        else:
            replaced = True
            listed[at] = _kept(plural, listed[at], part)
    config["current-context"] = config.get("current-context") or entry.name
    edited = _edited(text, entry)
    same = edited is not None and load_yaml(edited) == config
    _replace(path, edited if edited and same else _dumped(config))
    return replaced


def _dumped(config: Any) -> str:
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=10_000)


def _edited(text: str, entry: Entry) -> str | None:
    """The text with the entry in it and every other letter as it was; None for a text of another shape."""
    if not text.strip():
        return None
    cuts: list[tuple[int, int, str]] = []
    root = yaml.compose(text)
    keys = {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}
    for plural, part in entry.parts().items():
        found = keys.get(plural)
        if not isinstance(found, yaml.SequenceNode) or found.flow_style or not found.value:
            return None
        cuts.append(_cut(text, found, plural, part))
    if "current-context" not in keys:
        cuts.append((len(text), len(text), ("" if text.endswith("\n") else "\n") + f"current-context: {entry.name}\n"))
    elif not keys["current-context"].value:
        node = keys["current-context"]
        cuts.append((node.start_mark.index, node.end_mark.index, entry.name))
    for start, end, new in sorted(cuts, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _cut(text: str, listed: yaml.SequenceNode, plural: str, part: dict[str, Any]) -> tuple[int, int, str]:
    """Where a list's text changes, and to what: the entry of that name, else a new one before the first."""
    column = listed.start_mark.column
    for node in listed.value:
        old = load_yaml(yaml.serialize(node))
        if isinstance(old, dict) and old.get("name") == part["name"]:
            start, end = node.start_mark.index, node.end_mark.index
            lines = text[start:end].rstrip().split("\n")
            while len(lines) > 1 and not lines[-1].split("#")[0].strip():
                lines.pop()
            new = _dumped(_kept(plural, old, part)).rstrip()
            return start, start + len("\n".join(lines)), new.replace("\n", "\n" + " " * node.start_mark.column)
    start = listed.start_mark.index
    margin = " " * column
    return start, start, _dumped([part]).rstrip().replace("\n", "\n" + margin) + "\n" + margin


def _kept(plural: str, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new part, with what the person had set in a context: its namespace."""
    inside = old.get("context")
    if plural == "contexts" and isinstance(inside, dict):
        return {**old, "context": {**inside, **new["context"]}}
    return new


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise BadKubeconfig(f"The kubeconfig {path} cannot be read: {why}.", "Name another file.") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        config = load_yaml(text)
    except yaml.YAMLError:
        # The text may hold secrets, so none of it is repeated.
        raise BadKubeconfig(
            f"The kubeconfig {path} is no valid YAML; it is left as it is.", "Mend it, or name another file."
        ) from None
    if config is None:
        return {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    if not isinstance(config, dict):
        raise BadKubeconfig(f"The file {path} is no kubeconfig; it is left as it is.", "Name another file.")
    return config


def _replace(path: Path, text: str) -> None:
    try:
        make_private(path.parent)
        handle, name = tempfile.mkstemp(prefix=".config-", dir=path.parent)  # 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadKubeconfig(
            f"The kubeconfig {path} cannot be written: {error.strerror}.", "Name another file."
        ) from None
