"""The JSON that nccl-tests write with -J: one object, incomplete when the test was killed.

Booleans and nan are strings in it, roots are padded strings, and its `env` holds the whole environment with all
secrets: nothing of that is read.
"""

from __future__ import annotations

import json
from typing import Any

from console.metrics.nccl.lines import number
from console.metrics.nccl.results import Half, NcclTest, Row

_RESULTS = '"results"'


def parse_nccl_json(data: bytes) -> NcclTest | None:
    """The test in such a file, whole or cut off; None if it is something else."""
    text = data.decode("utf-8", "replace").strip()
    if not text.startswith("{") or _RESULTS not in text or '"nccl_version"' not in text:
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return _cut_off(text)
    if not isinstance(said, dict) or not isinstance(said.get("results"), list):
        return None
    bounds, average = _part(said, "out_of_bounds"), _part(said, "average_bus_bandwidth")
    error = _error(said.get("errors"))
    rows = _rows(said["results"])
    failed = error is not None or "false" in {_word(bounds.get("okay")), _word(average.get("okay"))}
    return NcclTest(
        program=_program(said.get("args")),
        version=_version(said),
        ranks=_ranks(said.get("config")),
        rows=rows,
        avg_busbw=_number(average.get("bandwidth")),
        out_of_bounds=_whole(bounds.get("count")),
        ok=False if failed or _wrong(rows) else True if _word(bounds.get("okay")) == "true" else None,
        finished=bool(average),
        error=error,
    )


def _cut_off(text: str) -> NcclTest | None:
    """What a test had written before it was killed: all results that are whole."""
    start = text.find("[", text.index(_RESULTS))
    decoder, results, at = json.JSONDecoder(), [], start + 1
    while start >= 0 and at < len(text):
        at = next((place for place in range(at, len(text)) if text[place] not in " ,\n\r\t"), len(text))
        try:
            result, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        results.append(result)
    rows = _rows(results)
    return NcclTest(rows=rows, ok=False if _wrong(rows) else None) if rows else None


def _rows(results: list[Any]) -> tuple[Row, ...]:
    rows = []
    for each in results:
        size, count = (_whole(each.get(key)) for key in ("size", "count")) if isinstance(each, dict) else (None, None)
        if size is None or count is None:
            continue
        redop = _word(each.get("redop")) or None
        halves = (_half(each.get("out_of_place")), _half(each.get("in_place")))
        rows.append(Row(size, count, _word(each.get("type")), redop, _whole(each.get("root")), *halves))
    return tuple(rows)


def _half(said: Any) -> Half | None:
    if not isinstance(said, dict):
        return None
    time = _number(said.get("time", said.get("cpu_time")))
    return Half(time, _number(said.get("alg_bw")), _number(said.get("bus_bw")), _whole(said.get("nwrong")))


def _wrong(rows: tuple[Row, ...]) -> bool:
    return any(half.wrong for row in rows for half in (row.out_of_place, row.in_place) if half)


def _part(said: dict[str, Any], key: str) -> dict[str, Any]:
    part = said.get(key)
    return part if isinstance(part, dict) else {}


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.strip() if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    return number(str(value).strip()) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    read = _number(value)
    return int(read) if read is not None and abs(read) < 1e18 else None


def _program(args: Any) -> str | None:
    first = args[0] if isinstance(args, list) and args else None
    return first.rpartition("/")[2] if isinstance(first, str) else None


def _version(said: dict[str, Any]) -> str | None:
    config = _part(said, "config")
    found = next((each for each in (said.get("nccl_tests_version"), config.get("version")) if each is not None), None)
    return str(found) if isinstance(found, (str, int)) else None


def _error(errors: Any) -> str | None:
    """What went wrong; of a test in which nothing did the last error is an empty text."""
    told = [text for text in (str(each).strip() for each in errors) if text] if isinstance(errors, list) else []
    return "; ".join(told) or None


def _ranks(config: Any) -> int | None:
    """The devices list has one for each process, whatever number of threads and GPUs it has."""
    devices = config.get("devices") if isinstance(config, dict) else None
    if not isinstance(devices, list) or not devices:
        return None
    a_process = [_whole(config.get(key)) or 1 for key in ("nthreads", "ngpus")]
    return len(devices) * a_process[0] * a_process[1]
