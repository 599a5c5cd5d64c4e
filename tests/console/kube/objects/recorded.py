"""Lists recorded from a real control plane: two A4 nodes, one JobSet that runs and one that waits."""

from pathlib import Path
from typing import Any

from console.kube.watched_kinds import KINDS, Kind

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "api"


def kind(plural: str) -> Kind:
    return next(each for each in KINDS if each.plural == plural)


def recorded(plural: str, version: str = "") -> dict[tuple[str, str], Any]:
    """Models of a recorded list."""
    reader = kind(plural).reader
    page = reader.read_page((FOLDER / f"{plural}{'-' + version if version else ''}.json").read_bytes())
    models, odd = reader.build_models(page.items)
    assert not odd
    return models


def read(plural: str, **fields: Any) -> Any:
    """The model of one object with a name and these fields."""
    import msgspec

    body = {"metadata": {"name": "x", **fields.pop("metadata", {})}, **fields}
    reader = kind(plural).reader
    models, odd = reader.build_models(reader.read_page(msgspec.json.encode({"items": [body]})).items)
    assert not odd, odd
    return next(iter(models.values()))
