from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import structs

from trainlog import parse_nccl
from trainlog.nccl.parser import MAX_LINE_BYTES, NcclParser
from trainlog.nccl.test_results import NcclHalf, NcclRow, NcclTest

FIXTURES = Path(__file__).parents[1] / "data"
DATA = Path(__file__).parents[4] / "practice" / "data"
HEAD = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
    "     time   algbw   busbw  #wrong\n"
)
ROW = (
    "     1048576        262144     float     sum      -1    34.65   30.26   52.96       0"
    "    34.35   30.52   53.41       0\n"
)
NEXT = (
    "     2097152        524288     float     sum      -1    37.96   55.24   96.67       0"
    "    38.07   55.09   96.40       0\n"
)
TORN = ROW.index("-1") + 2
"""Where libnccl's lines may cut a row first."""
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 74.86 \n#\n"
INFO = "node-7:21:98 [0] NCCL INFO Launch mode Parallel\n"
FIRST = NcclRow(1048576, 262144, "float", "sum", -1, NcclHalf(34.65, 30.26, 52.96, 0), NcclHalf(34.35, 30.52, 53.41, 0))
SECOND = NcclRow(
    2097152, 524288, "float", "sum", -1, NcclHalf(37.96, 55.24, 96.67, 0), NcclHalf(38.07, 55.09, 96.40, 0)
)


def fixture(name: str) -> bytes:
    return (FIXTURES / f"nccl_{name}.txt").read_bytes()


def one(text: str) -> NcclTest:
    (test,) = parse_nccl(text.encode())
    return test


def row(text: str, head: str = HEAD) -> NcclRow:
    (found,) = one(head + text + "\n").rows
    return found


@pytest.mark.parametrize(
    ("name", "average", "last"),
    [
        ("all_gather", 92.195, 353.68),
        ("alltoall", 82.1457, 338.67),
        ("reduce_scatter", 89.7046, 354.06),
        ("sendrecv", 71.3989, 362.29),
    ],
)
def test_recordings_of_8_gpus(name: str, average: float, last: float) -> None:
    (test,) = parse_nccl(fixture(name))
    assert (test.program, test.version, test.ranks) == (f"{name}_perf", "2.19.6", 8)
    assert (len(test.rows), test.avg_busbw, test.out_of_bounds) == (15, average, 0)
    assert (test.ok, test.finished, test.error) == (True, True, None)
    assert test.rows[-1].in_place is not None
    assert test.rows[-1].in_place.busbw == last
    values = [half.busbw or 0.0 for each in test.rows for half in (each.out_of_place, each.in_place) if half]
    assert test.avg_busbw == pytest.approx(sum(values) / len(values), abs=0.01)
    assert name != "all_gather" or [each.size for each in test.rows[:3]] == [0, 0, 128]


def test_every_number_of_a_recording() -> None:
    (test,) = parse_nccl((DATA / "nccl_all_reduce_h200x4.txt").read_bytes())
    assert [each.size for each in test.rows] == [2 << power for power in range(20, 34)]
    assert all(each.count * 4 == each.size for each in test.rows)
    assert test.rows[0] == NcclRow(
        2097152, 524288, "float", "sum", -1, NcclHalf(52.22, 40.16, 60.24, 0), NcclHalf(53.54, 39.17, 58.75, 0)
    )
    assert test.rows[-1].out_of_place == NcclHalf(70539.0, 243.55, 365.33, 0)
    assert test.peak_busbw == 366.97


def test_no_check_in_place() -> None:
    (test,) = parse_nccl(fixture("sendrecv"))
    halves = [(each.out_of_place, each.in_place) for each in test.rows]
    assert all(first and first.wrong == 0 and second and second.wrong is None for first, second in halves)


def test_what_was_taken_for_a_heading_lacks_its_number_sign() -> None:
    text = """\
mpirun -np 8 ./build/all_reduce_perf -b 8 -e 8G
 nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 validation: 1

 Using devices
   Rank  0 Pid   4101 on node-7 device  0 [0x00] NVIDIA B200
   Rank  1 Group  0 Pid   4102 on node-7 device  1 [0x00] NVIDIA B200
"""
    test = one(text + HEAD.replace("#  ", "   ", 1) + ROW + FOOT.replace("#", ""))
    assert (test.program, test.ranks, test.rows, test.avg_busbw) == ("all_reduce_perf", 2, (FIRST,), 74.86)
    assert one(text).ranks == 2
    assert parse_nccl(b"he said that Rank 3 Pid 7 on node-7 was late\n") == ()


@pytest.mark.parametrize(
    "odd", ["", INFO, "   " + ROW, HEAD, ROW.replace("   0\n", " N/A\n"), ROW.replace("0\n", "3\n")]
)
def test_rows_that_follow_each_other_are_read_as_if_each_stood_alone(odd: str) -> None:
    rows = [ROW.replace("1048576", f"{8 << at:7}") for at in range(30)]
    text = HEAD + "".join(rows[:12]) + odd + "".join(rows[12:]) + FOOT
    together, parser = parse_nccl(text.encode()), NcclParser()
    for line in text.splitlines(keepends=True):
        parser.feed(line.encode())
    assert together == parser.tests
    assert sum(len(test.rows) for test in together) == 30 + (odd not in {"", INFO, HEAD})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("34.65", ".5"), ("34.65", "1e5"), ("34.65", "1_0"), ("34.65", "nan"), ("34.65", "-3.5"), ("34.65", "5."),
        ("34.65", "9" * 400), ("1048576", "9" * 25), ("262144", "-262144"), ("262144", "26_144"), ("-1", "1"),
        ("-1", "--1"), ("-1", "-1.0"), ("float", "bfloat16"), ("float", "sum"), ("sum", "mulsum"), ("sum", "half"),
        ("53.41       0", "53.41     N/A"), ("53.41       0", "53.41      -5"), ("53.41       0", "53.41     0|"),
        ("    34.35", "\r    34.35"), ("    34.35", "\x0b34.35"), ("    34.35", " | 34.35"), ("0\n", "0 |\n"),
        ("       0\n", "\n"), ("0\n", "0 1\n"), ("0\n", "0\r\n"), ("     1048576", "  3  1048576"), ("0\n", "\n0 "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 7, 29])
def test_an_odd_row_is_read_among_others_as_it_is_by_itself(old: str, new: str, at: int) -> None:
    rows = [ROW.replace("1048576", f"{8 << place:7}") for place in range(30)]
    rows[at] = ROW.replace(old, new, 1)
    text, parser = HEAD + "".join(rows) + FOOT, NcclParser()
    for line in text.split("\n"):
        parser.feed(f"{line}\n".encode())
    assert parse_nccl(text.encode()) == parser.tests


LABELS = [
    "[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", " 0: ", "node-7: ", "x3005c0s13b0n0.hsn.cm 0: ", "[pod/train-0/main] ",
    "> ", "    ", "\t", "2026-03-01T12:30:59.123456789Z ", "[+  12.3] ", "\x1b[32m", "train-0 main ",
    "[pod/a/b] 2026-03-01T12:30:59Z ",
]  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("name", ["all_gather", "sendrecv"])
def test_labels_change_nothing(label: str, name: str) -> None:
    plain = fixture(name).decode()
    labelled = "".join(f"{label}{line}\n" for line in plain.splitlines())
    assert parse_nccl(labelled.encode()) == parse_nccl(plain.encode())


@pytest.mark.parametrize("label", LABELS)
def test_a_torn_row_under_a_label(label: str) -> None:
    head, tail = ROW[:TORN], ROW[TORN:]
    lines = [HEAD, head + INFO, tail, NEXT]
    (test,) = parse_nccl("".join(f"{label}{line}" for line in lines).encode())
    assert test.rows == (FIRST, SECOND)


def test_processes_with_different_labels_do_not_mix() -> None:
    lines = [HEAD, ROW, NEXT, FOOT.splitlines()[0] + "\n", FOOT.splitlines()[1] + "\n"]
    both = "".join(f"[1,{rank}]<stdout>:{line}" for line in lines for rank in (0, 1))
    tests = parse_nccl(both.encode())
    assert [test.rows for test in tests] == [(FIRST, SECOND), (FIRST, SECOND)]
    assert all(test.finished for test in tests)


def test_one_that_was_killed_and_the_next() -> None:
    cut = fixture("all_gather").rindex(b"  2147483648")
    first, second = parse_nccl(fixture("all_gather")[:cut] + fixture("alltoall"))
    assert (len(first.rows), first.finished, first.ok, first.avg_busbw) == (14, False, None, None)
    assert (len(second.rows), second.finished, second.program) == (15, True, "alltoall_perf")


def test_two_tables_without_a_footer_are_two_tests() -> None:
    first, second = parse_nccl((HEAD + ROW + NEXT + HEAD + ROW + NEXT + FOOT).encode())
    assert (first.rows, first.finished, first.avg_busbw, first.ok) == ((FIRST, SECOND), False, None, None)
    assert (second.rows, second.finished, second.avg_busbw, second.ok) == ((FIRST, SECOND), True, 74.86, True)
    first, second = parse_nccl((HEAD + NEXT + HEAD + ROW).encode())
    assert (first.rows, second.rows) == ((SECOND,), (FIRST,))


def test_two_that_print_into_each_other() -> None:
    start = "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 2097152 step: 2(factor) validation: 1\n"
    rank = "#  Rank  0 Group  0 Pid 1530412 on      node3 device  0 [0000:0f:00] NVIDIA H20\n"
    text = start + start + rank + rank + HEAD + ROW + HEAD + NEXT + FOOT + ROW + NEXT + FOOT.replace("74.86", "75.01")
    first, second = parse_nccl(text.encode())
    assert (first.rows, first.avg_busbw, first.ranks) == ((FIRST, SECOND), 74.86, 1)
    assert (second.rows, second.avg_busbw, second.ranks) == ((FIRST, SECOND), 75.01, 1)


def test_a_row_is_there_as_soon_as_its_line_has_ended() -> None:
    parser = NcclParser()
    assert parser.feed((HEAD + ROW[:-1]).encode())[0].rows == ()
    (test,) = parser.feed(b"\n")
    assert test.rows == (FIRST,)
    assert parser.feed(b"step 12: loss 2.104\n") == []


def test_the_last_line_needs_no_end() -> None:
    parser = NcclParser()
    parser.feed((HEAD + ROW.rstrip()).encode())
    (test,) = parser.close()
    assert test.rows == (FIRST,)
    assert parser.close() == []


def test_a_line_without_an_end_does_not_grow_for_ever() -> None:
    parser = NcclParser()
    for _ in range(400):
        parser.feed(b"x" * MAX_LINE_BYTES)
    parser.feed(b"\n" + (HEAD + ROW).encode())
    assert parser.tests[0].rows == (FIRST,)


MIXED = (
    fixture("sendrecv")
    + b"\x1b[2mn7:1:2 [0] NCCL INFO x\n"
    + fixture("all_gather")[:-400]
    + b"Test timeout\n"
    + fixture("alltoall")
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(MIXED)), max_size=25))
def test_how_the_bytes_are_cut_does_not_matter(cuts: list[int]) -> None:
    parser, at = NcclParser(), 0
    for cut in [*sorted(cuts), len(MIXED)]:
        parser.feed(MIXED[at:cut])
        at = cut
    parser.close()
    assert parser.tests == parse_nccl(MIXED)


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_break_it(data: bytes) -> None:
    tests = parse_nccl(HEAD.encode() + data + b"\n" + ROW.encode())
    assert any(FIRST in test.rows for test in tests)


@settings(deadline=None)
@given(st.text(alphabet="0123456789 .-+e#:NA/[]<>floatsum\n\t", max_size=300))
def test_no_text_like_a_table_breaks_it(text: str) -> None:
    for test in parse_nccl((HEAD + text).encode()):
        assert all(each.size >= 0 for each in test.rows)


def test_a_table_begins_in_the_middle_of_a_large_piece() -> None:
    quiet = INFO * 2000
    tests = parse_nccl((quiet + HEAD + ROW.replace("float", " int8") + quiet + NEXT + FOOT + quiet).encode())
    assert [[each.type for each in test.rows] for test in tests] == [["int8", "float"]]


CUT = ROW.index("    34.35")
HALF, BOTH, WORDS = structs.replace(FIRST, in_place=None), (FIRST, SECOND), ROW.split()
EACH = "    33.10    36.20    35.90    1.20"
OLD = "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
OLD_HALVES = NcclHalf(13744.0, 71.61, 71.61, None), NcclHalf(8837.0, 111.38, 111.38, None)
FIRST_HALVES = NcclHalf(1628.0, 6.14, 9.21, None), NcclHalf(1932.0, 5.18, 7.77, None)
WRONG_HALVES = NcclHalf(34.65, 30.26, 52.96, 268435000), NcclHalf(34.35, 30.52, 53.41, 1000000)
ROWS: dict[str, tuple[str, tuple[NcclRow, ...]]] = {
    "a date behind it": (ROW.rstrip() + " 2026-03-01 12:30:59\n", (FIRST,)),
    "columns of each iteration": ("  ".join([*WORDS[:9], EACH, *WORDS[9:], EACH]) + "\n", (FIRST,)),
    "columns of bit differences": ("  ".join([*WORDS[:9], "0", *WORDS[9:], "0"]) + "\n", (FIRST,)),
    "one half retyped": ("1048576 262144 float sum -1 34.65 30.26 52.96 0\n", (HALF,)),
    "retyped without a check": (
        "1048576 262144 float sum 34.65 30.26 52.96\n",
        (structs.replace(HALF, root=None, out_of_place=NcclHalf(34.65, 30.26, 52.96, None)),),
    ),
    "commented out": ("# " + ROW.strip() + "\n", (FIRST,)),
    "in colours": ("\x1b[1m\x1b[31m" + ROW.rstrip() + "\x1b[0m\n", (FIRST,)),
    "ends of lines of Windows": (ROW.replace("\n", "\r\n"), (FIRST,)),
    "torn behind the root": (ROW[:TORN] + INFO + ROW[TORN:] + NEXT, BOTH),
    "torn behind the first half": (ROW[:CUT] + INFO + ROW[CUT:] + NEXT, BOTH),
    "torn twice": (ROW[:TORN] + INFO + ROW[TORN:CUT] + INFO + INFO + ROW[CUT:] + NEXT, BOTH),
    "torn, and the rest never comes": (ROW[:CUT] + INFO + NEXT, (HALF, SECOND)),
    "values of no row": (ROW + "     72481.1   25.16   44.02       0  72469.2   25.16   44.03       0\n", (FIRST,)),
    "sizes that come again": (ROW + NEXT + ROW + NEXT + FOOT, BOTH * 2),
    "placeholders": ("  8589934592  2147483648  float  sum  -1  ...  ...  ...  0  ...  ...  ...  0\n" + FOOT, ()),
    "a value beyond all numbers": (
        "1048576 262144 float sum -1 34.65 30.26 1e999 1e999 34.35 30.52 53.41 0\n",
        (structs.replace(FIRST, out_of_place=NcclHalf(34.65, 30.26, None, None)),),
    ),
    "more wrong elements than fit": (
        ROW.replace("52.96       0", "52.96  2.68435e+08").replace("53.41       0", "53.41  1e+06"),
        (structs.replace(FIRST, out_of_place=WRONG_HALVES[0], in_place=WRONG_HALVES[1]),),
    ),
    "an old table, whole microseconds": (
        OLD + "  1073741808      22369621   float    13744   71.61   71.61  1e+00   8837.0  111.38  111.38  0e+00\n",
        (NcclRow(1073741808, 22369621, "float", None, None, *OLD_HALVES),),
    ),
    "an old table with a root and no operation": (
        OLD.replace("type ", "type    root ")
        + "   1024  256   float       3    13744   71.61   71.61  0e+00   8837.0  111.38  111.38  0e+00\n",
        (NcclRow(1024, 256, "float", None, 3, *OLD_HALVES),),
    ),
    "the first tables, in milliseconds": (
        "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n"
        "    10000000      10000000    char     sum    1.628   6.14   9.21    0e+00    1.932   5.18   7.77    N/A\n",
        (NcclRow(10000000, 10000000, "char", "sum", None, *FIRST_HALVES),),
    ),
    **{
        f"a row of {kind}": (ROW.replace("   float", f"{kind:>8}"), (structs.replace(FIRST, type=kind),))
        for kind in ("int8", "uint8", "int32", "double", "fp8_e4m3")
    },
}


@pytest.mark.parametrize("what", ROWS)
def test_rows_of_a_table(what: str) -> None:
    text, rows = ROWS[what]
    assert one(("" if text.startswith("#  ") else HEAD) + text).rows == rows


@pytest.mark.parametrize(
    "data", [b"sum of 3 4 floats\nloss 2.104 1 2 float values were seen, then 3\n", b"\xff\xfe\0\n"]
)
def test_what_is_no_row(data: bytes) -> None:
    assert parse_nccl(data) == ()
    assert parse_nccl(data + (HEAD + ROW).encode())[0].rows == (FIRST,)


START = "# nThread 1 nGpus 2\n"
FAILURE = "Test NCCL failure common.cu:392 'unhandled cuda error'"
FACTS: dict[str, tuple[str, dict[str, object]]] = {
    "no footer": (HEAD + ROW, {"finished": False, "ok": None, "avg_busbw": None, "out_of_bounds": None}),
    "well": (HEAD + ROW + FOOT, {"ok": True}),
    "no row was read": (HEAD + FOOT, {"ok": None}),
    "no row was read and it failed": (HEAD + FOOT.replace("0 OK", "4 FAILED"), {"ok": False}),
    "a row that was not read": (HEAD + ROW + NEXT.replace("37.96", "37..96") + FOOT, {"ok": None}),
    "wrong values": (HEAD + ROW.replace("       0 ", "      96 ", 1), {"ok": False}),
    "a check failed": (
        HEAD + ROW + FOOT.replace("0 OK", "4 FAILED"),
        {"ok": False, "out_of_bounds": 4, "finished": True},
    ),
    "too slow": (HEAD + ROW + FOOT.replace("74.86 ", "74.86 FAILED"), {"ok": False, "avg_busbw": 74.86}),
    **{
        f"an average of {text}": (HEAD + ROW + f"Avg bus bandwidth: {text}\n", {"avg_busbw": value, "finished": True})
        for text, value in (("390.79 GB/s", 390.79), ("nan", None), ("-nan", None), ("XXX.XX", None), ("0", 0.0))
    },
    "a failure of 2018": (
        "NCCL failure common.cu:921 'unhandled system error'\n",
        {"ok": False, "error": "NCCL failure common.cu:921 'unhandled system error'"},
    ),
    "a failure": (
        f"{START}{HEAD}{ROW}n7: {FAILURE}\n .. n7 pid 5068: Test failure common.cu:590\n",
        {"error": FAILURE, "ok": False, "rows": (FIRST,), "finished": False},
    ),
    "a failure of another process": (
        f"[1,0]<stdout>:{HEAD}[1,0]<stdout>:{ROW}[1,3]<stderr>:n7: Test CUDA failure common.cu:5 'out of memory'\n",
        {"error": "Test CUDA failure common.cu:5 'out of memory'"},
    ),
    "a failure before any table": ("n7: Test CUDA failure common.cu:516 'no device'\n", {"rows": (), "ok": False}),
    "an error under the footer": (
        HEAD + ROW + FOOT + "# Collective test concluded: all_reduce_perf\n#\n# error: remote process exited\n",
        {"error": "remote process exited", "program": "all_reduce_perf", "ok": False},
    ),
    "a command before it": (
        f"+ mpirun -np 2 ./build/all_reduce_perf -b 1M -e 2M\n{START}{HEAD}{ROW}",
        {"program": "all_reduce_perf"},
    ),
    "quotes and escapes about it": (
        '{"log":"# nccl-tests version 2.19.6\\n","n":1}\n{"log":"# Collective test starting: all_reduce_perf\\n",'
        '"n":2}\n' + FOOT,
        {"version": "2.19.6", "program": "all_reduce_perf"},
    ),
}


@pytest.mark.parametrize("what", FACTS)
def test_what_a_table_says_of_its_test(what: str) -> None:
    text, facts = FACTS[what]
    test = one(text)
    assert {name: getattr(test, name) for name in facts} == facts
