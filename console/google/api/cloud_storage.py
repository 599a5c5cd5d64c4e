"""Buckets, objects, resumable downloads with crc32c; the only importer of google.cloud.storage, in threads."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import google.cloud.storage as api
from google.api_core.exceptions import NotFound as ApiNotFound, PreconditionFailed
from google.cloud.storage.retry import DEFAULT_RETRY
from google_crc32c import Checksum
from requests import exceptions as transport

from console.errors import TRY_AGAIN, Conflict, ConsoleError, CopyFailed, Unreachable
from console.google.api import members_by_role
from console.google.api.calls import GoogleSession, seconds_of, translate_errors
from console.google.api.object_parts import Endpoint, read_parts
from console.google.bucket_paths import Bucket, GcsPlace, StoredObject

STORAGE_SILENCE_TIMEOUT = 30.0  # seconds of silence that one request may last
RETRY_POLICY = DEFAULT_RETRY.with_timeout(60.0)
CALL_LIMITS: dict[str, Any] = {"timeout": STORAGE_SILENCE_TIMEOUT, "retry": RETRY_POLICY}
PAGE_OBJECTS, MAX_PAGES = 1000, 2000  # objects in one answer, and answers of one list
MAX_OBJECT_BYTES = 1 << 50  # bytes of an object; Cloud Storage takes 5 TiB
AnswerT = TypeVar("AnswerT")


@contextmanager
def translate_storage_errors(action: str) -> Iterator[None]:
    """Translate errors of Cloud Storage and its HTTP library to Refused, Unreachable and the like in this block."""
    try:
        with translate_errors(action):
            yield
    except transport.RequestException as error:
        raise Unreachable(f"Could not {action}: Cloud Storage does not answer.", TRY_AGAIN) from error


class Buckets:
    def __init__(self, session: GoogleSession, project: str) -> None:
        self._session, self.project = session, project
        self._library_client: Any = None

    def client(self) -> Any:
        """The library's client; call it in a thread."""
        if self._library_client is None:
            where = self._session.practice_http
            options = {"api_endpoint": where} if where else None
            self._library_client = api.Client(self.project, self._session.login(), client_options=options)
        return self._library_client

    async def run_in_thread(self, action: str, function: Callable[[Any], AnswerT]) -> AnswerT:
        """Run `function` in a thread with the library's client, and return its result."""
        with translate_storage_errors(action):
            return await asyncio.to_thread(lambda: function(self.client()))

    async def close(self) -> None:
        made, self._library_client = self._library_client, None
        if made is not None:
            await asyncio.to_thread(made.close)

    async def list_buckets(self) -> tuple[Bucket, ...]:
        return await self.run_in_thread(
            f"list the buckets of {self.project}",
            lambda client: tuple(
                _parse_bucket(each)
                for page in _pages(client.list_buckets(page_size=PAGE_OBJECTS, **CALL_LIMITS))
                for each in page
            ),
        )

    async def read_bucket(self, name: str) -> Bucket:
        return await self.run_in_thread(
            f"read bucket {name}", lambda client: _parse_bucket(client.get_bucket(name, **CALL_LIMITS))
        )

    async def read_role_members(self, name: str) -> dict[str, frozenset[str]]:
        """The IAM policy of a bucket: role -> members; roles inherited from the project are not included."""

        def call(client: Any) -> dict[str, frozenset[str]]:
            policy = client.bucket(name).get_iam_policy(requested_policy_version=3, **CALL_LIMITS)
            return members_by_role((each["role"], each.get("members", ())) for each in policy.bindings)

        return await self.run_in_thread(f"read the IAM policy of bucket {name}", call)

    async def create(self, name: str, location: str) -> Bucket:
        """Create a bucket with uniform access in the project."""

        def call(client: Any) -> Bucket:
            made = api.Bucket(client, name)
            made.iam_configuration.uniform_bucket_level_access_enabled = True
            made.create(location=location, **CALL_LIMITS)
            return _parse_bucket(made)

        return await self.run_in_thread(f"create bucket {name}", call)

    async def is_owned(self, name: str) -> bool:
        """Whether the project owns the bucket; a bucket with a guessable name may be a stranger's."""
        return await self.run_in_thread(
            f"list the buckets of {self.project}",
            lambda client: any(
                each.name == name
                for page in _pages(client.list_buckets(prefix=name, page_size=PAGE_OBJECTS, **CALL_LIMITS))
                for each in page
            ),
        )

    async def list_folder(self, place: GcsPlace, limit: int = 5 * PAGE_OBJECTS) -> tuple[list[StoredObject], bool]:
        """The objects of one bucket folder, and whether there are more than `limit`."""

        def call(client: Any) -> tuple[list[StoredObject], bool]:
            found = client.list_blobs(
                place.bucket,
                prefix=place.folder,
                delimiter="/",
                include_folders_as_prefixes=True,
                page_size=PAGE_OBJECTS,
                **CALL_LIMITS,
            )
            objects: list[StoredObject] = []
            for page in _pages(found):
                objects += [_parse_object(each) for each in page if each.name != place.folder]
                if len(objects) + len(found.prefixes) >= limit:
                    break
            folders = [StoredObject(name) for name in sorted(found.prefixes)]
            return [*folders, *objects], bool(found.next_page_token)

        return await self.run_in_thread(f"list {place}", call)

    async def iter_tree(self, place: GcsPlace) -> AsyncGenerator[StoredObject, None]:
        """Yield all objects below a bucket folder, or the object of that name."""

        def begin(client: Any) -> Any:
            if place.path and not place.path.endswith("/"):
                one = client.bucket(place.bucket).get_blob(place.path, **CALL_LIMITS)
                if one is not None:
                    return iter([[one]])
            return _pages(client.list_blobs(place.bucket, prefix=place.folder, page_size=PAGE_OBJECTS, **CALL_LIMITS))

        pages = await self.run_in_thread(f"list {place}", begin)
        while (page := await self.run_in_thread(f"list {place}", lambda _: _parse_page(next(pages, None)))) is not None:
            for each in page:
                yield each

    async def read_bytes(self, place: GcsPlace, start_offset: int = 0, limit: int = 1 << 20) -> bytes:
        """Up to `limit` bytes of an object from `start_offset` on; empty past its end, or if it does not exist."""
        return (await self.read_parts(place.bucket, {place.path: (start_offset, limit)}))[place.path]

    async def read_parts(self, bucket: str, byte_ranges: Mapping[str, tuple[int, int]]) -> dict[str, bytes]:
        """By object name its bytes for (offset, maximum bytes), read concurrently; empty past its end or if missing."""
        endpoint = await self.run_in_thread(f"read objects of bucket {bucket}", Endpoint.of)
        return await read_parts(self._session, endpoint, bucket, byte_ranges)

    async def upload(self, place: GcsPlace, file: Path, *, replace: bool = False) -> None:
        """Upload a file to `place`. Raises Conflict if the object exists, unless `replace` is set."""

        def call(client: Any) -> None:
            blob = client.bucket(place.bucket).blob(place.path)
            expected = None if replace else 0
            blob.upload_from_filename(str(file), checksum="crc32c", if_generation_match=expected, **CALL_LIMITS)

        try:
            await self.run_in_thread(f"write {place}", call)
        except ConsoleError as error:
            if isinstance(error.__cause__, PreconditionFailed):
                raise Conflict(f"{place} already exists.", "Choose another place, or replace it.") from error
            raise


def _pages(response: Any) -> Iterator[Any]:
    """The pages of a list, possibly none. Raises ValueError for an endless list."""
    for number, page in enumerate(response.pages):
        if number == MAX_PAGES:
            raise ValueError(f"it has more than {MAX_PAGES:,} pages")
        yield page


def _parse_bucket(response: Any) -> Bucket:
    return Bucket(
        name=response.name,
        project=str(response.project_number or ""),
        location=(response.location or "").lower(),
        location_type=response.location_type or "",
        storage_class=response.storage_class or "",
        created=seconds_of(response.time_created),
        uniform=bool(response.iam_configuration.uniform_bucket_level_access_enabled),
        hierarchical=bool(response.hierarchical_namespace_enabled),
    )


def _parse_page(page: Any) -> list[StoredObject] | None:
    return None if page is None else [_parse_object(each) for each in page]


def _parse_object(response: Any) -> StoredObject:
    if not 0 <= (size := response.size or 0) <= MAX_OBJECT_BYTES:
        raise ValueError(f"{response.name!r} has {size} bytes")
    return StoredObject(
        name=response.name,
        bytes=size,
        updated=seconds_of(response.updated),
        generation=int(response.generation or 0),
        crc32c=response.crc32c or "",
    )


CHUNK_BYTES = 16 * 1024 * 1024  # bytes that one request brings


async def download_object(
    buckets: Buckets, bucket: str, obj: StoredObject, target: Path, progress: Callable[[int], None]
) -> bool:
    """Download an object, resuming .NAME.GENERATION.part; False if `target` has it. Raises CopyFailed if damaged."""
    if await asyncio.to_thread(_is_downloaded, target, obj):
        progress(obj.bytes)
        return False
    part = target.with_name(f".{target.name}.{obj.generation}.part")
    checksum = await asyncio.to_thread(_resume_checksum, part, obj.bytes)
    at = (await asyncio.to_thread(part.stat)).st_size
    progress(at)
    try:
        while at < obj.bytes:
            came = await buckets.run_in_thread(
                f"fetch {obj.name}", partial(_download_chunk, bucket, obj, part, at, checksum)
            )
            at += came
            progress(came)
    except ConsoleError as error:
        if not isinstance(error.__cause__, ApiNotFound | PreconditionFailed):
            raise
        raise CopyFailed(f"{obj.name} was replaced or deleted during the download.", "Fetch it again.") from error
    await asyncio.to_thread(_finish_download, part, target, obj, checksum)
    return True


def _download_chunk(bucket: str, obj: StoredObject, part: Path, offset: int, checksum: Checksum, client: Any) -> int:
    """Append an object's next bytes to the partial file; returns how many. CopyFailed if fewer come or disk errors."""
    end = min(offset + CHUNK_BYTES, obj.bytes) - 1
    data = (
        client.bucket(bucket)
        .blob(obj.name)
        .download_as_bytes(
            start=offset, end=end, raw_download=True, checksum=None, if_generation_match=obj.generation, **CALL_LIMITS
        )
    )
    if len(data) != end + 1 - offset:
        raise CopyFailed(f"{obj.name} ended early.", "Run it again: the downloaded part is kept.")
    try:
        with part.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise CopyFailed(f"{part} cannot be written: {error.strerror}.", "Is the disk full?") from error
    checksum.update(data)
    return len(data)


def _file_checksum(path: Path) -> Checksum:
    checksum = Checksum()
    with path.open("rb") as file:
        while data := file.read(CHUNK_BYTES):
            checksum.update(data)
    return checksum


def _checksum_text(checksum: Checksum) -> str:
    return base64.b64encode(checksum.digest()).decode()


def _is_downloaded(target: Path, obj: StoredObject) -> bool:
    try:
        if not target.is_file() or target.stat().st_size != obj.bytes:
            return False
    except OSError as error:  # a name that is too long for a file
        hint = "gcloud storage cp copies it under another name."
        raise CopyFailed(f"{target} cannot be written: {error.strerror}.", hint) from error
    return bool(obj.crc32c) and _checksum_text(_file_checksum(target)) == obj.crc32c


def _resume_checksum(part: Path, size: int) -> Checksum:
    """The checksum of a partial download; an unusable file is emptied. CopyFailed if the file cannot be written."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        if part.is_file() and part.stat().st_size <= size:
            return _file_checksum(part)
        part.write_bytes(b"")
    except OSError as error:
        raise CopyFailed(f"{part.parent} cannot be written: {error.strerror}.", "Choose another folder.") from error
    return Checksum()


def _finish_download(part: Path, target: Path, obj: StoredObject, checksum: Checksum) -> None:
    if obj.crc32c and _checksum_text(checksum) != obj.crc32c:
        part.unlink()
        raise CopyFailed(f"{obj.name} is damaged: its checksum differs.", "Fetch it again.")
    try:
        part.replace(target)
    except OSError as error:
        raise CopyFailed(f"{target} cannot be written: {error.strerror}.", "Choose another folder.") from error
