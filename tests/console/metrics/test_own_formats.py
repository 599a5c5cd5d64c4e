"""Formats of one's own: lines that no program known prints become steps, by a pattern of the settings."""

from pathlib import Path

import pytest

from console.folders import make_private
from console.metrics.job_measures import RankProgress
from console.settings_file import config_path, load_config, own_log_formats
from trainlog import TrainingParser, compile_pattern

NOVA = r"""
[[formats]]
name = "nova"
pattern = 'it (?P<step>\d+) of (?P<total>.+) obj (?P<loss>\S+) \|( (?P<time_ms>\d+) ms (?P<tflops>\S+))? e (?P<eps>\S+)'
"""
LOG = "".join(
    f"[rank0]: 12:00:{at:02} it {at} of 90 obj {3.0 - at / 100:.2f} | {500 + at} ms 812.5 e 0.1\nnothing here\n"
    for at in range(1, 40)
)


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write(NOVA)


def write(text: str) -> None:
    make_private(config_path().parent)
    config_path().write_text(text)


@pytest.mark.parametrize("size", [7, 300, 1 << 20])
def test_steps_are_read_from_bytes_in_any_pieces(size: int) -> None:
    parser, data = TrainingParser(own_log_formats()), LOG.encode()
    for at in range(0, len(data), size):
        parser.feed(data[at : at + size])
    (run,) = parser.runs
    assert (run.format, len(run.steps)) == ("nova (own)", 39)
    last = run.steps[-1]
    assert (last.step, last.total, last.loss, last.step_time_s) == (39, 90, 2.61, 0.539)
    assert (last.tflops_per_gpu, last.extra) == (812.5, {"eps": 0.1})


def test_steps_are_read_from_lines_that_are_text_already() -> None:
    parser = TrainingParser(own_log_formats())
    taken = [parser.read_line(line, at) for at, line in enumerate(LOG.splitlines(), 1) if parser.may_be_relevant(line)]
    assert taken == [True] * 39
    assert parser.runs[0].number == 39


def test_a_rank_tells_of_its_step() -> None:
    ranks = RankProgress()
    ranks.add_line(3, 1.0, LOG.splitlines()[-2])
    assert ranks.steps == {3: 39}


def test_a_loss_that_is_no_number_is_an_alarm() -> None:
    parser = TrainingParser(own_log_formats())
    parser.feed(b"it 1 of 9 obj 2.5 | e 1\nit 2 of 9 obj nan | e 1\n")
    assert [step.nan for step in parser.runs[0].steps] == [False, True]


def test_lines_of_known_programs_are_read_as_before() -> None:
    parser = TrainingParser(own_log_formats())
    parser.feed(b"[titan] step:  5  loss:  7.3  grad_norm: 49.6  memory: 103.01GiB(73.72%)  tps: 771\n")
    assert parser.runs[0].format == "torchtitan"


def test_a_pattern_never_matches_beyond_a_line() -> None:
    write("[[formats]]\nname = \"x\"\npattern = 'at\\s+(?P<step>\\d+)[^x]+loss (?P<loss>\\S+)'\n")
    parser = TrainingParser(own_log_formats())
    parser.feed(b"at 1\nloss 2\nat 3 loss 4\n")
    assert [step.step for step in parser.runs[0].steps] == [3]


def test_changed_settings_hold_for_the_next_log() -> None:
    assert TrainingParser(own_log_formats()).may_be_relevant("it 1 of 9 obj 2.5 | e 1")
    write("")
    assert not TrainingParser(own_log_formats()).may_be_relevant("it 1 of 9 obj 2.5 | e 1")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?P<step>", "is no pattern of RE2's: "),
        (r"(?=a)(?P<step>\d+)", "is no pattern of RE2's: invalid perl operator: (?=. Look-around"),
        (r"(?P<step>\d+) \1", "is no pattern of RE2's: invalid escape sequence: \\1. Look-around"),
        (r"(?P<step>\d{1001})", "is no pattern of RE2's: invalid repetition size"),
        (r"(?P<loss>\d+)", "has no group (?P<step>…), by which steps are counted."),
        ("", "is '', and has to be a text of 1 to 2000 characters."),
    ],
)
def test_a_wrong_pattern_is_named_by_its_line_and_the_others_hold(pattern: str, why: str) -> None:
    write(f"{NOVA}\n[[formats]]\nname = \"bad\"\npattern = '{pattern}'\n")
    found = load_config()
    (problem,) = found.problems
    assert problem.line == 8
    assert f"formats[2].pattern {why}" in problem.text
    assert [each.name for each in found.config.formats] == ["nova"]


def test_a_hostile_line_takes_no_longer_than_its_length() -> None:
    """Python's own expressions need longer than the universe for it."""
    pattern = compile_pattern(r"(?P<step>(a+)+)$")
    assert pattern.search("a" * 2000 + "b") is None
    assert list(pattern.places(b"a" * 8000 + b"b\n")) == []
