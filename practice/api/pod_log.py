"""Container logs over HTTP: selection of lines, and following."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from practice.api.paths_and_versions import parse_flag, parse_number
from practice.objects.api_error import ApiError, FieldCause
from practice.runtime import ContainerLog


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The requested part of a log; ``since`` is in epoch seconds, 0 for all."""

    follow: bool
    previous: bool
    timestamps: bool
    tail: int | None
    since: float
    limit: int | None

    @classmethod
    def without_history(cls) -> LogOptions:
        """Return the options for attaching to a container: only future lines."""
        return cls(follow=True, previous=False, timestamps=False, tail=0, since=0, limit=None)

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> LogOptions:
        """Parse the query of a log request. Raises ApiError 422 for invalid values."""
        tail, limit, seconds = (
            parse_number(query, "tailLines"),
            parse_number(query, "limitBytes"),
            parse_number(query, "sinceSeconds"),
        )
        since_time = query.get("sinceTime", "")
        wrong: list[FieldCause] = []
        if tail is not None and tail < 0:
            wrong.append(_invalid_option("tailLines", str(tail), "must be greater than or equal to 0"))
        if limit is not None and limit < 1:
            wrong.append(_invalid_option("limitBytes", str(limit), "must be greater than 0"))
        if seconds is not None and since_time:
            text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            wrong.append(FieldCause("", f"Forbidden: {text}", "FieldValueForbidden"))
        if seconds is not None and seconds < 1:
            wrong.append(_invalid_option("sinceSeconds", str(seconds), "must be greater than 0"))
        if wrong:
            raise _bad_options(wrong)
        since = _parse_time(since_time) if since_time else time.time() - seconds if seconds else 0.0
        return cls(
            parse_flag(query, "follow"),
            parse_flag(query, "previous"),
            parse_flag(query, "timestamps"),
            tail,
            since,
            limit,
        )


def _invalid_option(field: str, value: str, text: str) -> FieldCause:
    return FieldCause(field, f"Invalid value: {value}: {text}", "FieldValueInvalid")


def _bad_options(wrong: list[FieldCause]) -> ApiError:
    sentences = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in wrong]
    joined = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    causes = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in wrong]
    return ApiError(422, "Invalid", f'PodLogOptions "" is invalid: {joined}', {"causes": causes})


def _parse_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        message = f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        raise ApiError(400, "BadRequest", message) from None


async def stream_chunks(log: ContainerLog, options: LogOptions) -> AsyncIterator[bytes]:
    """Yield the selected bytes of a log, and new ones while following, until the container ends."""
    at = 0 if options.tail is None else max(len(log.lines) - options.tail, 0)
    left, begins = options.limit, True
    while True:
        end = len(log.lines)
        chunk = b"".join(_select_lines(log, options, at, end, begins_line=begins))
        begins = chunk.endswith(b"\n") if chunk else begins
        at = end
        if left is not None:
            chunk = chunk[:left]
            left -= len(chunk)
        if chunk:
            yield chunk
        if left == 0 or not options.follow or (log.ended and at == len(log.lines)):
            return
        if at == len(log.lines):
            await log.wait(at)


def _select_lines(log: ContainerLog, options: LogOptions, start: int, end: int, *, begins_line: bool) -> list[bytes]:
    """Return the log's lines from `start` to before `end`; ``begins_line``: the first one starts a new line."""
    lines = []
    for at, (moment, line) in enumerate(log.lines[start:end], start):
        if moment < options.since:
            continue
        head = _format_timestamp(moment) if options.timestamps and begins_line else b""
        begins_line = at not in log.parts
        lines.append(head + line + b"\n" if begins_line else head + line)
    return lines


def _format_timestamp(moment: float) -> bytes:
    whole, nanoseconds = divmod(round(moment * 1e9), 10**9)
    return datetime.fromtimestamp(whole, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{nanoseconds:09d}Z ").encode()
