"""The log formats of a person's settings, as the parser of training logs takes them."""

from __future__ import annotations

from console.config import config_in_force
from console.metrics.training.formats.unknown_programs import OwnFormat
from console.patterns import compiled


def load_own_formats() -> tuple[OwnFormat, ...]:
    """Those of the settings as they are now."""
    return tuple(OwnFormat(each.name, compiled(each.pattern)) for each in config_in_force().config.formats)
