from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from textual.app import App, ComposeResult

from console.kube.objects.event import Event
from rankscope import LateRank, SlowReport
from screens.columns.queues import quota_bar
from screens.job_tabs.ranks import PodCell, PodMatrix, late_mark, slow_lines
from screens.theme import DARK
from screens.widgets.side_pane import event_lines, fact_lines
from screens.widgets.styled_text import cut_sentence, wrap_text
from screens.widgets.title_and_keys import TabLabel, TabStrip
from screens.widgets.wrapped_sentence import cut_spans, fold_spans
from screens.widgets.yaml import yaml_spans
from screens.wording import OK, Span
from tests.screens.press import focus, press, text_of, until


@pytest.mark.parametrize("used", [0, 1, 8, 63, 64, 72, 200])
@pytest.mark.parametrize("width", [1, 4, 12, 24])
def test_a_quota_bar_is_as_wide_as_asked(used: int, width: int) -> None:
    borrowed = max(0, used - 64)
    assert sum(len(run.text) for run in quota_bar(used, 64, borrowed, width)) == width


def test_a_quota_bar_tells_own_borrowed_and_free() -> None:
    assert [run.text[0] for run in quota_bar(96, 64, 32, 12)] == ["█", "▓"]
    assert [run.text[0] for run in quota_bar(8, 64, 0, 12)] == ["█", "░"]
    assert "".join(run.text for run in quota_bar(1, 1000, 0, 10)) == "█" + "░" * 9
    assert "".join(run.text for run in quota_bar(63, 64, 0, 10)).endswith("░")
    assert quota_bar(0, 0, 0, 5) == [Span("     ")]


def test_sentences_break_at_spaces_and_keep_words_of_two_inks_whole() -> None:
    runs = [Span("pods\u00a0", "dim"), Span("2/2", "ok"), Span("  and more words")]
    lines = ["".join(run.text for run in line) for line in fold_spans(runs, 12)]
    assert lines == ["pods\u00a02/2", "and more", "words"]


UNITS = {"%", "h", "d", "min", "s", "GPUs", "GPU-hours", "GB/s", "GiB", "TFLOP/s", "°C", "W"}
NAMES_OF_NUMBERS = {"rank", "pod", "step", "of", "attempt", "+", "-", "=", "<"}
TEXTS_WITH_FIGURES = (
    "42 %  step 4,209 of 10,000   6 h 7 min left; no step for 1 d 2 h after step 289, usually one takes 3.74 s",
    "rank 9 of pod 1 costs up to 7 % of each step (4.2 to 11 % with 95 % confidence); 16 GPUs held, 41 min",
    "112 own + 8 to borrow - 96 used = 24 free; steps take 35 % longer (2.77 to 3.74 s a step), 211.3 GPU-hours",
    "616.2 GB/s at 1 GiB · < 1 % of 1,180 TFLOP/s · attempt 2 of 4 · 58 °C · 826 W",
)


@pytest.mark.parametrize("width", range(16, 60))
def test_no_figure_is_broken_over_lines(width: int) -> None:
    for text in TEXTS_WITH_FIGURES:
        spans = [Span(text[:9]), Span(text[9:30], "dim"), Span(text[30:])]
        for lines in (wrap_text(text, width), ["".join(run.text for run in runs) for runs in fold_spans(spans, width)]):
            assert " ".join(line.strip() for line in lines).split() == text.split()
            assert max(map(len, lines)) <= width
            for above, below in pairwise(lines):
                ends, begins = above.split()[-1].strip("("), below.split()[0].strip(";,.)")
                is_number = ends[-1].isdigit() and not ends.startswith("step")
                assert not (is_number and begins in UNITS), (above, below)
                assert not (ends in {"h", "d"} | NAMES_OF_NUMBERS and begins[0].isdigit()), (above, below)


def test_a_sentence_that_is_cut_says_so_at_a_whole_word() -> None:
    runs = fold_spans([Span("one two"), Span(" three", "ok"), Span(" four")], 40)[0]
    assert "".join(run.text for run in cut_spans(runs, 15, " …")) == "one two three …"
    assert "".join(run.text for run in cut_spans(runs, 14, " …")) == "one two …"
    assert "".join(run.text for run in cut_spans(runs, 2, " …")) == " …"
    runs = fold_spans([Span("it would take 2 of 3 hosts")], 40)[0]
    assert {"".join(run.text for run in cut_spans(runs, width, " …")) for width in range(15, 22)} == {"it would take …"}
    runs = fold_spans([Span("3h12m"), Span(" ·\u00a0priority\u00a0", "dim"), Span("medium")], 40)[0]
    assert "".join(run.text for run in cut_spans(runs, 22, " …")) == "3h12m …", "no label without its value"


@pytest.mark.parametrize("width", range(26, 35))
def test_of_names_as_many_stay_as_have_room(width: int) -> None:
    runs = cut_sentence([Span("8 GPUs short · nccl-0412 or dpo-a3b")], width)
    assert "".join(run.text for run in runs) == "8 GPUs short · nccl-0412 …"


def test_yaml_runs() -> None:
    assert yaml_spans("  - name: a: b") == [Span("  - ", "dim"), Span("name:", "accent"), Span(" a: b", "")]
    assert yaml_spans("replicas: 2")[-1] == Span(" 2", "waits")
    assert yaml_spans("# comment") == [Span("# comment", "dim")]
    assert "".join(run.text for run in yaml_spans('    "{\\"a\\": [1, 2]}"')) == '    "{\\"a\\": [1, 2]}"'


class Host(App[None]):
    """A matrix and tabs."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[int] = []
        self.picked: list[str] = []

    def compose(self) -> ComposeResult:
        yield TabStrip()
        yield PodMatrix()

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.theme = DARK.name
        self.query_one(PodMatrix).cells = tuple(PodCell(number, OK) for number in range(70))
        self.query_one(TabStrip).tabs = (TabLabel("a", "r", "Ranks"), TabLabel("b", "l", "Log", "pod 0"))

    def on_pod_matrix_opened(self, event: PodMatrix.Opened) -> None:
        self.opened.append(event.number)

    def on_tab_strip_picked(self, event: TabStrip.Picked) -> None:
        self.picked.append(event.name)


def slow_rank(share: float, **facts: Any) -> LateRank:
    return LateRank(9, "10.0.0.2", 1202, 1, share, share - 0.01, share + 0.01, slow=True, pod_index=1, **facts)


@pytest.mark.parametrize(
    ("share", "mark"),
    [(0.03, ("△", "waits")), (0.099, ("△", "waits")), (0.1, ("▲", "bad")), (0.4, ("▲", "bad")), (0.0, ("⚠", "waits"))],
)
def test_a_pod_with_a_slow_rank_has_a_sign_for_how_long_the_others_wait(share: float, mark: tuple[str, str]) -> None:
    late = late_mark(slow_rank(share))
    assert PodCell(0, OK, late_mark=late).span(0.0) == Span(*mark)
    assert PodCell(0, OK, steps_behind=2, late_mark=late).span(0.0) == Span("▼", "bad")
    assert PodCell(0, Span("✗", "bad"), late_mark=late).span(0.0) == Span("✗", "bad")


def test_of_a_pod_the_worst_rank_is_reported_and_of_one_without_slow_ranks_the_bound() -> None:
    late = (slow_rank(0.068, cause="host"), slow_rank(0.03), replace(slow_rank(0.2), pod_index=3))
    report = SlowReport("train", late=late, bound=0.021, at=1000.0)

    def slow_words(pod: int) -> list[str]:
        return ["".join(run.text for run in line) for line in slow_lines(report, pod, 4, 200, 1007.0)]

    assert slow_words(1) == [
        "△ Rank 9 (pod 1, GPU 1): the others wait for it for 6.8 % (5.8 to 7.8 % with 95 % confidence) of each step, "
        "because of its host. 2 ranks are slow here.",
        "GPUs 0 to 3 of pod 1: ● △ ● ●",
        "△ less than 10 %, ▲ 10 % and more of each step that the others wait for a rank of the pod, ⚠ for a share that "
        "is not known (NCCL asked 7s ago)",
    ]
    assert slow_words(2)[0] == "pod 2: none of its ranks is late for more than 2.1 % of each step."
    assert slow_words(3)[0].startswith("▲ Rank 9 (pod 3, GPU 1): the others wait for it for 20 %")
    report = replace(report, late=(replace(late[0], pod_index=None),))
    assert slow_words(2)[0].startswith("△ Rank 9 (GPU 1): the others wait")
    assert len(slow_words(2)) == 2, "nobody knows in which pod it is"


async def test_matrix_has_32_ranks_a_line_and_a_cursor() -> None:
    app = Host()
    async with app.run_test(size=(100, 20)) as pilot:
        matrix = app.query_one(PodMatrix)
        await until(pilot, lambda: matrix.size.height == 3)
        assert [line[:6].strip() for line in text_of(matrix).splitlines()] == ["0 ●", "32 ●", "64 ●"]
        await focus(pilot, matrix)
        await press(pilot, "down", "right", "enter", then=lambda: app.opened == [33])
        await pilot.press("down", "down", "enter")
        assert app.opened == [33, 65]  # no line below: the cursor stays
        await pilot.resize_terminal(40, 20)
        await until(pilot, lambda: matrix.size.height == 5)


async def test_tabs_are_clicked() -> None:
    app = Host()
    async with app.run_test(size=(100, 20)) as pilot:
        assert "r Ranks" in text_of(app.query_one(TabStrip))
        await pilot.click(TabStrip, offset=(14, 0))
        await until(pilot, lambda: app.picked == ["b"])


def test_facts_of_a_node_that_are_too_long_for_a_line_go_on_below_it() -> None:
    told = "332 GB/s pass, 9 h ago: NCCL between two nodes, 2 to 8 GiB; passes from 250 GB/s on A4"
    lines = fact_lines((("Health scan", told), ("Zone", "us-central1-b")), 76, columns_beside=0)
    assert [name.text.strip() for name, *_ in lines] == ["Zone", "Health scan", ""]
    assert " ".join("".join(run.text for run in runs) for _, *runs in lines[1:]) == told


def test_a_name_longer_than_a_pane_goes_on_in_its_next_line() -> None:
    name = "gke-prod-us-central1-a4-highgpu-8g-a4-pool-79c66879-0xk2"
    lines = fact_lines([("Node", name)], 40)
    assert "".join("".join(run.text for run in runs[1:]) for runs in lines) == name
    assert len(lines) == 3


def test_the_text_of_an_event_goes_on_below_it_and_no_event_is_cut() -> None:
    said = 'Successfully pulled image "us-central1-docker.pkg.dev/practice/images/pytorch:25.06" in 2.1 s'
    events = [Event("n", str(at), reason="Pulled", message=said, last=40.0) for at in range(4)]
    lines = ["".join(run.text for run in runs) for runs in event_lines(events, 165.0, 60, 9)]
    assert lines[:2] == ["", "events"]
    assert lines[2].startswith(" 2m05s  Pulled  Successfully")
    assert "".join(lines[2:5]).replace(" ", "") == f"2m05sPulled{said}".replace(" ", "")
    assert len(lines) == 8, "no third event is begun that would be cut"
    assert max(map(len, lines)) <= 60
