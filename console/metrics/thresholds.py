"""The person's thresholds for alarms: `$XDG_CONFIG_HOME/a4/alarms.toml`, whose keys are those of `Thresholds`."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.errors import BadInput
from console.metrics.alarm_rules import LEAST, SWITCHES, AlarmKind, Thresholds


def usual_place() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(config) if config and Path(config).is_absolute() else Path.home() / ".config"
    return home / "a4" / "alarms.toml"


def read_thresholds(place: Path | None = None) -> Thresholds:
    """The person's thresholds; those that are usual where there is no file. BadInput if it cannot be used."""
    place = place or usual_place()
    try:
        given = tomllib.loads(place.read_text())
    except FileNotFoundError:
        return Thresholds()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{place} cannot be read: {error}.", "Fix or remove it; a4 wait --help lists its keys."
        ) from error
    try:
        return with_thresholds(Thresholds(), given)
    except BadInput as error:
        raise BadInput(f"{place}: {error.message}", error.hint) from error


def with_thresholds(before: Thresholds, given: dict[str, Any]) -> Thresholds:
    """Those with some of them changed; BadInput names the first that cannot be."""
    changed: dict[str, Any] = {}
    for name, value in given.items():
        if name == "off":
            changed[name] = _kinds(value)
        elif name in SWITCHES and isinstance(value, bool):
            changed[name] = value
        elif name in LEAST:
            if isinstance(value, bool) or not isinstance(value, int | float) or not LEAST[name] <= value < 1e9:
                raise BadInput(f"{name} has to be a number of at least {LEAST[name]:g}, not {value!r}.")
            changed[name] = value
        else:
            raise BadInput(f"There is no threshold {name}.", f"There are {', '.join([*LEAST, 'off', *SWITCHES])}.")
    return replace(before, **changed)


def _kinds(value: object) -> tuple[AlarmKind, ...]:
    names = [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
    for name in names:
        if name not in list(AlarmKind):
            raise BadInput(f"There is no alarm {name!r}.", f"There are {', '.join(AlarmKind)}.")
    return tuple(AlarmKind(name) for name in names)
