"""The output formats of nccl-tests: table rows, possibly with labels or torn apart by other output, and JSON.

Rows are parsed from the right: after `size count type` come an optional operation, an optional root and the values,
which only their number tells apart. Old tables have an integer time where new ones have the root.

The JSON of option -J is one object, incomplete if the test was killed. Booleans and nan are strings in it, roots are
padded strings, and its `env` holds the whole environment with all secrets, which is not read.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trainlog.lines import WordSearch
from trainlog.nccl.test_results import NcclHalf, NcclRow, NcclTest
from trainlog.regex import lazy_pattern

_DTYPE = lazy_pattern(r"u?int(?:8|32|64)?|char|half|float|double|bf(?:loat)?16|(?:fp8|f8)_?e[45]m[23]\w*")
_REDOPS = frozenset({"sum", "prod", "max", "min", "avg", "mulsum", "none"})
_TABLE_VALUE = lazy_pattern(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|nan|inf)[*%]?|N/A")
_GLUED_VALUE = lazy_pattern(r"([+-]?\d+|N/A)[A-Za-z][\w.-]*:\d+:\d+")  # a last value with a line of libnccl behind it
_TABLE_WORDS = (
    *(b"#", b" type", b"_perf", b"Test ", b"NCCL failure", b"of bounds", b"bus bandwidth", b"Collective test"),
    *(b"rccl-tests", b"nccl-tests", b"nThread", b" Pid ", b"float", b"half", b" sum ", b" none "),
)
TABLE_SEARCH = WordSearch(*_TABLE_WORDS)  # without any of these a line begins no test, and hardly ever a row
_TYPE_WORDS = (b"double", b"char", b"int8", b"int32", b"int64", b" int ", b"bf16", b"e4m", b"e5m")
ROW_SEARCH = WordSearch(*_TABLE_WORDS, *_TYPE_WORDS)  # without any of these a line may only be the rest of a torn row
_DATE, _TIME = lazy_pattern(r"\d{4}-\d\d-\d\d"), lazy_pattern(r"\d\d:\d\d:\d\d")
_COLUMNS_BY_VALUES = {3: (3, 1), 4: (4, 1), 6: (3, 2), 8: (4, 2), 10: (5, 2), 16: (8, 2), 18: (9, 2)}
"""By number of values in a row: (values of a half, halves). Retyped tables have fewer, per-iteration reports more."""
_USUAL_ROW = lazy_pattern(  # a row of today's tables with nothing before or behind it
    r"\s*(\d+)\s+(\d+)\s+([a-z]\w+)\s+([a-z]+)\s+(-?\d+)"
    + 2 * (3 * r"\s+(\d{1,20}(?:\.\d{0,20})?)" + r"\s+(\d+|N/A)")
    + r"\s*"
)
_NUMBER = lazy_pattern(r"[+-]?\d+\.?\d*(?:e[+-]?\d+)?")
_RELATIVE_ERROR = lazy_pattern(r"\d(?:\.\d+)?e-\d+|[01]e\+00")  # of old tables; never like a count of elements


class ColumnUnits(Struct, frozen=True):
    """The units of a table's values, from its column header."""

    milliseconds: bool = False
    relative_error: bool = False  # the fourth column is an error, not a count


class PartialRow(Struct, frozen=True):
    """A table row whose beginning has been printed, and whose rest may follow on a later line."""

    row: NcclRow
    values: tuple[str, ...] = ()


def parse_row(text: str, units: ColumnUnits) -> NcclRow | PartialRow | None:
    """Parse a line as a table row, complete or partial; None if it is no row."""
    usual = _USUAL_ROW.fullmatch(text)
    if usual and usual.group(4) in _REDOPS and not units.milliseconds and not units.relative_error:
        # The row in a match of the usual format; None if its type is not one of nccl-tests'
        size, count, kind, redop, root, time, alg, bus, wrong, time_in, alg_in, bus_in, wrong_in = usual.groups()
        if not _DTYPE.fullmatch(kind):
            return None
        out_of_place = NcclHalf(float(time), float(alg), float(bus), None if wrong == "N/A" else int(wrong))
        in_place = NcclHalf(float(time_in), float(alg_in), float(bus_in), None if wrong_in == "N/A" else int(wrong_in))
        return NcclRow(int(size), int(count), kind, redop, int(root), out_of_place, in_place)
    tokens = text.split()
    start = _first_value_index(tokens)
    if start is None:
        return None
    size, count, kind, *rest = tokens[start:]
    redop = rest.pop(0) if rest and rest[0] in _REDOPS else None
    values, cut = _collect_values(rest)
    root, values = _parse_root(values)
    if len(values) in _COLUMNS_BY_VALUES and not (cut and len(values) < 6):
        return NcclRow(int(size), int(count), kind, redop, root, *_parse_halves(values, units))
    return (
        PartialRow(NcclRow(int(size), int(count), kind, redop, root), tuple(values)) if len(values) in {0, 4} else None
    )


def complete_row(partial_row: PartialRow, text: str, units: ColumnUnits) -> NcclRow | PartialRow | None:
    """The partial row with the values of this line added; None if the line has no values."""
    tokens = _drop_timestamp(text.split())
    tail: list[str] = []
    while tokens and _TABLE_VALUE.fullmatch(tokens[-1]):
        tail.insert(0, tokens.pop())
    if not tail and tokens:
        tail, _ = _collect_values(text.split())
    if not any("." in value for value in tail):
        return None
    values = [*partial_row.values, *tail]
    if len(values) == 4 and not partial_row.values:
        return replace(partial_row, values=tuple(values))
    return _fill_row(partial_row.row, values, units) if len(values) in _COLUMNS_BY_VALUES and len(values) > 4 else None


def row_without_in_place(partial_row: PartialRow, units: ColumnUnits) -> NcclRow | None:
    """The row of a partial one whose rest never came, with its out-of-place half; None without a whole half."""
    return _fill_row(partial_row.row, list(partial_row.values), units) if len(partial_row.values) == 4 else None


def _first_value_index(tokens: list[str]) -> int | None:
    for at in range(len(tokens) - 3, -1, -1):
        kind = tokens[at + 2]
        if kind[0] in "bcdfhiu" and tokens[at].isdecimal() and tokens[at + 1].isdecimal() and _DTYPE.fullmatch(kind):
            return at
    return None


def _drop_timestamp(tokens: list[str]) -> list[str]:
    dated = len(tokens) > 2 and _DATE.fullmatch(tokens[-2]) and _TIME.fullmatch(tokens[-1])
    return tokens[:-2] if dated else tokens


def _collect_values(tokens: list[str]) -> tuple[list[str], bool]:
    """(values up to the first token that is none, whether there is such a token)."""
    values: list[str] = []
    for token in _drop_timestamp(tokens):
        if _is_plain_number(token) or _TABLE_VALUE.fullmatch(token):
            values.append(token)
            continue
        glued = _GLUED_VALUE.match(token)
        return ([*values, glued.group(1)] if glued else values), True
    return values, False


def _parse_root(values: list[str]) -> tuple[int | None, list[str]]:
    """(root rank, other values): an odd number of values has one, but three are half a reprinted row."""
    if not values or not values[0].removeprefix("-").isdecimal():
        return None, values
    if values[0] == "-1" or (len(values) % 2 and len(values) != 3):
        return int(values[0]), values[1:]
    return None, values


def _fill_row(row: NcclRow, values: list[str], units: ColumnUnits) -> NcclRow:
    out_of_place, in_place = _parse_halves(values, units)
    return replace(row, out_of_place=out_of_place, in_place=in_place)


def _parse_halves(values: list[str], units: ColumnUnits) -> tuple[NcclHalf, NcclHalf | None]:
    width, halves = _COLUMNS_BY_VALUES[len(values)]
    return _parse_half(values[:width], units), _parse_half(values[width:], units) if halves == 2 else None


def _parse_half(values: list[str], units: ColumnUnits) -> NcclHalf:
    time = parse_number(values[0])
    return NcclHalf(
        time_us=time * 1000 if time is not None and units.milliseconds else time,
        algbw=parse_number(values[1]),
        busbw=parse_number(values[2]),
        wrong=_parse_wrong_count(values[3], units) if len(values) > 3 else None,
    )


def parse_number(text: str) -> float | None:
    """A finite number; None for N/A, nan and everything else."""
    if not _is_plain_number(text):
        found = _NUMBER.fullmatch(text.rstrip("*%"))
        if found is None:
            return None
        text = found.group()
    value = float(text)
    return value if math.isfinite(value) else None


def _is_plain_number(text: str) -> bool:
    """Whether the text is digits with at most one point, as nearly all values are."""
    return text.replace(".", "", 1).isdecimal()


def _parse_wrong_count(text: str, units: ColumnUnits) -> int | None:
    """The number of wrong elements; None if the column holds an error that is not a count."""
    value = parse_number(text)
    return None if value is None or units.relative_error or _RELATIVE_ERROR.fullmatch(text) else int(value)


# JSON

_RESULTS_KEY = '"results"'


def parse_nccl_json(data: bytes) -> NcclTest | None:
    """The test in nccl-tests' JSON output, complete or truncated; None if it is something else."""
    text = data.decode("utf-8", "replace").strip()
    if not text.startswith("{") or _RESULTS_KEY not in text or '"nccl_version"' not in text:
        return None
    import json  # 1 ms that most logs do not need

    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return _parse_truncated_json(text)
    if not isinstance(document, dict) or not isinstance(document.get("results"), list):
        return None
    bounds, average = _sub_object(document, "out_of_bounds"), _sub_object(document, "average_bus_bandwidth")
    error, rows, args = _json_error(document.get("errors")), _parse_json_rows(document["results"]), document.get("args")
    program = args[0] if isinstance(args, list) and args else None
    version = document.get("nccl_tests_version")
    version = _sub_object(document, "config").get("version") if version is None else version
    failed = error is not None or "false" in {_json_text(bounds.get("okay")), _json_text(average.get("okay"))}
    return NcclTest(
        program=program.rpartition("/")[2] if isinstance(program, str) else None,
        version=str(version) if isinstance(version, (str, int)) else None,
        ranks=_json_rank_count(document.get("config")),
        rows=rows,
        avg_busbw=_json_float(average.get("bandwidth")),
        out_of_bounds=_json_int(bounds.get("count")),
        ok=False if failed or _has_wrong_elements(rows) else True if _json_text(bounds.get("okay")) == "true" else None,
        finished=bool(average),
        error=error,
    )


def _parse_truncated_json(text: str) -> NcclTest | None:
    """The complete results in truncated JSON of a test that was killed; None if there are none."""
    import json

    start = text.find("[", text.index(_RESULTS_KEY))
    decoder, results, at = json.JSONDecoder(), [], start + 1
    while start >= 0 and at < len(text):
        at = next((place for place in range(at, len(text)) if text[place] not in " ,\n\r\t"), len(text))
        try:
            result, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        results.append(result)
    rows = _parse_json_rows(results)
    return NcclTest(rows=rows, ok=False if _has_wrong_elements(rows) else None) if rows else None


def _parse_json_rows(results: list[Any]) -> tuple[NcclRow, ...]:
    rows = []
    for each in results:
        size, count = (
            (_json_int(each.get(key)) for key in ("size", "count")) if isinstance(each, dict) else (None, None)
        )
        if size is None or count is None:
            continue
        redop = _json_text(each.get("redop")) or None
        halves = (_parse_json_half(each.get("out_of_place")), _parse_json_half(each.get("in_place")))
        rows.append(NcclRow(size, count, _json_text(each.get("type")), redop, _json_int(each.get("root")), *halves))
    return tuple(rows)


def _parse_json_half(half: Any) -> NcclHalf | None:
    if not isinstance(half, dict):
        return None
    time = _json_float(half.get("time", half.get("cpu_time")))
    return NcclHalf(
        time, _json_float(half.get("alg_bw")), _json_float(half.get("bus_bw")), _json_int(half.get("nwrong"))
    )


def _has_wrong_elements(rows: tuple[NcclRow, ...]) -> bool:
    return any(half.wrong for row in rows for half in (row.out_of_place, row.in_place) if half)


def _sub_object(document: dict[str, Any], key: str) -> dict[str, Any]:
    part = document.get(key)
    return part if isinstance(part, dict) else {}


def _json_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.strip() if isinstance(value, str) else ""


def _json_float(value: Any) -> float | None:
    return (
        parse_number(str(value).strip())
        if isinstance(value, (int, float, str)) and not isinstance(value, bool)
        else None
    )


def _json_int(value: Any) -> int | None:
    read = _json_float(value)
    return int(read) if read is not None and abs(read) < 1e18 else None


def _json_error(errors: Any) -> str | None:
    """The error texts joined; None if nothing failed, which the JSON shows as an empty text."""
    messages = [text for text in (str(each).strip() for each in errors) if text] if isinstance(errors, list) else []
    return "; ".join(messages) or None


def _json_rank_count(config: Any) -> int | None:
    """The number of ranks: entries of the devices list, times threads and GPUs of each; None if not listed."""
    devices = config.get("devices") if isinstance(config, dict) else None
    if not isinstance(devices, list) or not devices:
        return None
    a_process = [_json_int(config.get(key)) or 1 for key in ("nthreads", "ngpus")]
    return len(devices) * a_process[0] * a_process[1]
