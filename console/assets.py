"""Where chart/ and launchers/ are: beside the packages in a checkout, inside console/_data in a wheel."""

from __future__ import annotations

from pathlib import Path

from console.errors import Unreadable

_PACKAGE = Path(__file__).resolve().parent
_PLACES = (_PACKAGE.parent, _PACKAGE / "_data")


def chart() -> Path:
    """The folder of the Helm chart."""
    return _folder("chart", "Chart.yaml")


def launchers() -> Path:
    """The folder of the scripts that run inside pods."""
    return _folder("launchers", "run.sh")


def _folder(name: str, proof: str) -> Path:
    """The first place whose folder holds `proof`: an unrelated folder of that name in site-packages is passed over."""
    for place in _PLACES:
        if (place / name / proof).is_file():
            return place / name
    raise Unreadable(f"The folder {name}/ of this installation is missing or incomplete.", "Install a4-console again.")
