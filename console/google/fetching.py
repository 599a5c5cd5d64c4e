"""Downloads out of buckets: in pieces that can be gone on with, checked by crc32c, whole under their final names."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

from google_crc32c import Checksum

from console.errors import ConsoleError, CopyFailed
from console.google.storage import PATIENCE, RETRY, replaced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from console.google.storage import Buckets
    from console.models.storage import StoredObject

PIECE = 16 * 1024 * 1024
"""Bytes that one request brings."""


async def fetch(
    buckets: Buckets, bucket: str, stored: StoredObject, target: Path, progress: Callable[[int], None]
) -> bool:
    """Bring one object; False if it was there already. `progress` gets the bytes that came or were there.

    What has come stays beside the target as .NAME.GENERATION.part for the next try; CopyFailed if it came damaged.
    """
    if await asyncio.to_thread(_is_there, target, stored):
        progress(stored.bytes)
        return False
    part = target.with_name(f".{target.name}.{stored.generation}.part")
    checksum = await asyncio.to_thread(_begin, part, stored.bytes)
    at = await asyncio.to_thread(_size, part)
    progress(at)
    try:
        while at < stored.bytes:
            came = await buckets.asked(f"fetch {stored.name}", _Piece(bucket, stored, part, at, checksum))
            at += came
            progress(came)
    except ConsoleError as error:
        if not replaced(error):
            raise
        raise CopyFailed(f"{stored.name} was replaced or deleted while it came.", "Fetch it again.") from error
    await asyncio.to_thread(_finish, part, target, stored, checksum)
    return True


class _Piece:
    """Brings one piece and adds it to the file; gives how many bytes that were."""

    def __init__(self, bucket: str, stored: StoredObject, part: Path, at: int, checksum: Checksum) -> None:
        self.bucket, self.stored, self.part, self.at, self.checksum = bucket, stored, part, at, checksum

    def __call__(self, client: Any) -> int:
        blob = client.bucket(self.bucket).blob(self.stored.name)
        end = min(self.at + PIECE, self.stored.bytes) - 1
        data = blob.download_as_bytes(
            start=self.at, end=end, raw_download=True, checksum=None, timeout=PATIENCE, retry=RETRY,
            if_generation_match=self.stored.generation,
        )  # fmt: skip
        if len(data) != end + 1 - self.at:
            raise CopyFailed(f"{self.stored.name} ended early.", "Fetch it again: what has come is kept.")
        try:
            with self.part.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise CopyFailed(f"{self.part} cannot be written: {error.strerror}.", "Is the disk full?") from error
        self.checksum.update(data)
        return len(data)


def _sum_of(path: Path) -> Checksum:
    checksum = Checksum()
    with path.open("rb") as file:
        while data := file.read(PIECE):
            checksum.update(data)
    return checksum


def _said(checksum: Checksum) -> str:
    return base64.b64encode(checksum.digest()).decode()


def _is_there(target: Path, stored: StoredObject) -> bool:
    if not target.is_file() or target.stat().st_size != stored.bytes:
        return False
    return bool(stored.crc32c) and _said(_sum_of(target)) == stored.crc32c


def _begin(part: Path, size: int) -> Checksum:
    """What an earlier try has left, counted; an empty file where it left nothing that can be used."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        if part.is_file() and part.stat().st_size <= size:
            return _sum_of(part)
        part.write_bytes(b"")
    except OSError as error:
        raise CopyFailed(f"{part.parent} cannot be written: {error.strerror}.", "Choose another folder.") from error
    return Checksum()


def _size(part: Path) -> int:
    return part.stat().st_size


def _finish(part: Path, target: Path, stored: StoredObject, checksum: Checksum) -> None:
    if stored.crc32c and _said(checksum) != stored.crc32c:
        part.unlink()
        raise CopyFailed(f"{stored.name} came damaged: its checksum differs.", "Fetch it again.")
    try:
        part.replace(target)
    except OSError as error:
        raise CopyFailed(f"{target} cannot be written: {error.strerror}.", "Choose another folder.") from error
