import pytest

from trainlog.log_results import LogResults
from trainlog.training.formats.known_programs import parse_checkpoint

MEGATRON = (
    " [2026-09-05 16:08:25] iteration {n:8}/  200 | consumed samples: {n} | elapsed time per iteration (ms): 11182.0 |"
    " lm loss: 2.688647E+00 | grad norm: 7.737 |\n"
)
TABLE = (
    "# nccl-tests version 2.19.6\n# Collective test starting: all_reduce_perf\n"
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    "  1024  256  float  sum  -1  34.65  30.26  52.96  0  34.35  30.52  53.41  0\n"
    "  2048  512  float  sum  -1  34.65us  30.26GB/s  52.96GB/s  ok  34.35us  30.52GB/s  53.41GB/s  ok\n"
)


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_it_says_since_which_line_and_keeps_the_text(piece: int) -> None:
    half = " iteration 6 of 200 | loss is 2.6 this time | took 11 s |\n"
    log = ("\r\nsetup\n" + MEGATRON.format(n=5) + "noise\r\n" + half + half).encode()
    reading = LogResults()
    for at in range(0, len(log), piece):
        reading.feed(log[at : at + piece])
    reading.close()
    told = reading.unreadable["training"]
    assert (told.first, told.last, told.lines, told.goes_on) == (5, 6, 2, True)
    assert told.text == half.strip()
    assert told.summary == "unreadable since line 5 (2 lines)"
    assert [len(run.steps) for run in reading.training] == [1]


def test_what_is_read_again_no_longer_goes_on() -> None:
    reading = LogResults()
    half = " iteration 6 of 200 | loss is 2.6 this time | took 11 s |\n"
    reading.feed((MEGATRON.format(n=5) + half + MEGATRON.format(n=7)).encode())
    assert reading.unreadable["training"].summary == "1 line unreadable (line 2)"


def test_a_row_of_a_table_that_cannot_be_read() -> None:
    reading = LogResults()
    reading.feed(TABLE.encode())
    assert reading.unreadable["nccl"].first == 5
    assert len(reading.nccl[0].rows) == 1


def test_an_evaluation_is_no_step_that_cannot_be_read() -> None:
    reading = LogResults()
    reading.feed((MEGATRON.format(n=5) + "step 5: validation loss: good, eval loss: fine\n").encode())
    assert reading.unreadable == {}


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("  successfully saved checkpoint from iteration      40 to /out [ t 1/1, p 1/1 ]", 40),
        ("Saving model checkpoint to /out/v0-2026/checkpoint-120", 120),
        ("saved a checkpoint at step 70", 70),
        ("Finished saving the checkpoint (or staging if async is enabled) in 2.31 seconds.", None),
    ],
)
def test_checkpoints(text: str, step: int | None) -> None:
    found = parse_checkpoint(text)
    assert found is not None
    assert found.step == step


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "successfully saved checkpoint from iteration 100 to output/Qwen3-30B/checkpoint",
            "output/Qwen3-30B/checkpoint",
        ),
        ("Saving model checkpoint to ./out/v0-2026/checkpoint-120", "./out/v0-2026/checkpoint-120"),
        ("successfully saved checkpoint from iteration 40 to /out [ t 1/1, p 1/1 ]", "/out"),
        ("saved checkpoint to gs://bucket/run at step 7", "gs://bucket/run"),
        ("Finished saving the checkpoint (or staging if async is enabled) in 2.31 seconds.", ""),
    ],
)
def test_where_it_was_saved_to(text: str, place: str) -> None:
    found = parse_checkpoint(text)
    assert found is not None
    assert found.place == place


def test_what_is_no_saved_checkpoint() -> None:
    assert parse_checkpoint("loading checkpoint from iteration 40") is None
    assert parse_checkpoint("saving checkpoint at iteration 40 to /out in torch_dist format") is None


STRANGE = "{n:5} 210.32 ms run, 20.11 ms python, {n}0.93 loss, 0.000100 LR, 12832.22 GFLOPS\n"


@pytest.mark.parametrize(
    ("log", "summary"),
    [
        ("".join(STRANGE.format(n=n) for n in range(4)), "unreadable since line 1 (4 lines)"),
        ("".join(STRANGE.format(n=n) for n in range(2)), ""),
        ("".join(STRANGE.format(n=n) for n in range(4)) + MEGATRON.format(n=5), ""),
        ("`loss_type=None` was set in the config but it is unrecognised.\n" * 8, ""),
    ],
    ids=["lines that name a loss", "few of them", "a step after all", "a setting of a loss"],
)
def test_of_a_form_that_nobody_knows_only_lines_that_name_a_loss_are_counted(log: str, summary: str) -> None:
    reading = LogResults()
    reading.feed(log.encode())
    reading.close()
    unread = reading.unreadable.get("training")
    assert (unread.summary if unread else "") == summary
