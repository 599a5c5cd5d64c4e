import pytest

from console.logs.log_segment import LogSegment
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.log_search import LogLocation, find_first_matches, find_progress_pod, locate_alarm
from trainlog import FIRST_ERROR, shorten_iteration_line


def iteration(number: int, loss: str = "1.058000E+01", norm: str = "0.310") -> str:
    """As Megatron prints it."""
    lm_loss = f" lm loss: {loss} |" if loss else ""
    return (
        f" [2026-11-22 10:00:{number % 60:02}] iteration {number:8}/      97 | consumed samples: {number * 64:12} |"
        f" elapsed time per iteration (ms): 2820.0 | throughput per GPU (TFLOP/s/GPU): 883.1 |"
        f" learning rate: 1.000000E-05 | global batch size:    64 |{lm_loss} loss scale: 1.0 | grad norm: {norm} |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def part(rank: int, *lines: str, attempt: int = 0, start: float = 1_795_000_000.0) -> LogSegment:
    """Lines of a pod, one a second."""
    made = LogSegment(rank, attempt=attempt)
    made.append_lines(
        [(start + at, b"2026-11-18T12:26:40.000000000Z " + line.encode()) for at, line in enumerate(lines)]
    )
    return made


QUIET = part(0, "step 1 libraries: run", "[rank 0] ready; the last rank prints the iterations")


def test_the_pod_that_prints_iterations_is_found() -> None:
    assert find_progress_pod([QUIET, part(1, *map(iteration, range(1, 5)))]) == 1
    assert find_progress_pod([QUIET, part(1, "ready")]) is None
    assert locate_alarm([QUIET, part(1, *map(iteration, range(1, 5)))], None) == LogLocation(1)


def test_an_alarm_leads_to_the_line_that_it_came_from() -> None:
    sick = part(1, *map(iteration, range(1, 20)), *(iteration(number, "", "nan") for number in range(20, 23)))
    nan = Alarm(AlarmKind.NAN, "loss is NaN since step 20", 0.0)
    place = locate_alarm([QUIET, sick], nan)
    assert place is not None
    assert place.pod == 1
    assert find_first_matches([QUIET, sick], place.pattern)[1].named_position == "iteration 20"
    xid = part(0, "[ 12.3] NVRM: Xid (PCI:0000:8f:00): 79, GPU has fallen off the bus.")
    assert locate_alarm([xid, sick], Alarm(AlarmKind.GPU, "pod 0 GPU 1: Xid 79", 0.0)) == LogLocation(0, r"\bS?Xid\b")
    assert locate_alarm(
        [QUIET, sick], Alarm(AlarmKind.BEHIND, "pod 0 40 steps behind the leading pod", 0.0)
    ) == LogLocation(0)
    assert locate_alarm([QUIET, sick], Alarm(AlarmKind.STALL, "no new iteration for 5 min", 0.0)) == LogLocation(1)


def test_the_first_error_of_each_pod_is_that_of_its_latest_attempt() -> None:
    before = part(0, "RuntimeError: of before", start=1000.0)
    now = part(0, "ready", "fine", attempt=1, start=2000.0)
    found = find_first_matches([before, now, part(1, "ready", "Traceback (most recent call last):")], FIRST_ERROR)
    assert {pod: line.text for pod, line in found.items()} == {1: "Traceback (most recent call last):"}
    assert find_first_matches([part(2, iteration(7))], FIRST_ERROR) == {}, "the count of nan iterations is no error"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (iteration(20), "it 20/97  loss 10.580  gn 0.31  2.82 s  883 TF"),
        (iteration(21, "", "nan"), "it 21/97  loss nan  gn nan  2.82 s  883 TF"),
        ("[rank1]: " + iteration(22).strip(), "[rank1]:  it 22/97  loss 10.580  gn 0.31  2.82 s  883 TF"),
        ("iteration 7 of something else", ""),
        ("ready", ""),
    ],
)
def test_an_iteration_in_few_words(line: str, words: str) -> None:
    assert shorten_iteration_line(line) == words
