"""The log formats of a person's settings, as the parser of training logs takes them."""

from __future__ import annotations

from console.config import config_in_force
from trainlog import OwnFormat, compile_pattern


def load_own_formats() -> tuple[OwnFormat, ...]:
    """Those of the settings as they are now."""
    return tuple(OwnFormat(each.name, compile_pattern(each.pattern)) for each in config_in_force().config.formats)
