"""Which cases came out as expected with what they are made of now: their pods, and the code that plays them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.rehearsal.cases import Case
from tests.rehearsal.judging import Row

FOLDER = Path(__file__).parent
RECORD = FOLDER / "rehearsed.json"


def name_of(case: Case) -> str:
    return f"{case.recipe} {case.nodes} {case.fault}"


def digests(cases: Sequence[Case], manifests: Sequence[Any], key: str) -> list[str]:
    """A digest for each case, whatever key pair this rehearsal made."""
    files = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc" and path != RECORD)
    player = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    texts = (json.dumps([repr(case), made], sort_keys=True).replace(key, "KEY") for case, made in
             zip(cases, manifests, strict=True))  # fmt: skip
    return [hashlib.sha256(f"{player} {text}".encode()).hexdigest()[:16] for text in texts]


def recorded() -> dict[str, str]:
    found: dict[str, str] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def record(rows: Sequence[Row], digest: Sequence[str], known: frozenset[str]) -> None:
    """Keep those that came out as expected, and forget those that did not or are no case any more."""
    kept = {name: each for name, each in recorded().items() if name in known}
    for row, each in zip(rows, digest, strict=True):
        kept.pop(name_of(row.case), None)
        if row.good:
            kept[name_of(row.case)] = each
    RECORD.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
