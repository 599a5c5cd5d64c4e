"""How serious a line is."""

import pytest

from trainlog.severity import detect_level, has_severity


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("[rank3]: RuntimeError: CUDA error", "error"),
        ("ValueError", "error"),
        ("error_rate 0.1", "info"),
        ("err0r 9error", "info"),
        ("loss: nan", "error"),
        ("lm loss= -NaN |", "error"),
        ("nanoseconds: 5", "info"),
        ("number of nan iterations:   0", "info"),
        ("12 NCCL WARN Timeout", "error"),
        ("NVRM: Xid (PCI:0000:01): 79", "error"),
        ("SXid 12", "error"),
        ("oxid 5", "info"),
        ("0 errors, no failures", "info"),
        ("WARNING: 0 errors", "warn"),
        ("FutureWarning: deprecated", "info"),
        ("the last warn", "warn"),
        ("[DEBUG] x", "debug"),
        ("x" * 400 + " error", "info"),
    ],
)
def test_the_words_of_a_line_say_it(line: str, wanted: str) -> None:
    assert detect_level(line.encode()) == wanted
    assert has_severity(line.encode(), "error") is (wanted == "error")
    assert has_severity(line.encode(), "warn") is (wanted in {"error", "warn"})
