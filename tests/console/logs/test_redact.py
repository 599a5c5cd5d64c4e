from console.logs.log_line import split_timestamps
from trainlog import REDACTED, Redactor, redact_text

STAMP = b"2026-11-21T07:00:00.5Z "


def through(*lines: bytes) -> list[bytes]:
    redactor = Redactor()
    return [redactor.redact_lines([STAMP + line])[0].removeprefix(STAMP) for line in lines]


def test_a_key_over_many_lines() -> None:
    lines = [
        b"before",
        b"-----BEGIN RSA PRIVATE KEY-----",
        b"MIIabc",
        b"def==",
        b"-----END RSA PRIVATE KEY----- tail",
        b"after",
    ]
    out = through(*lines)
    assert out[0] == b"before"
    assert out[-1] == b"after"
    assert b"MIIabc" not in b"".join(out)
    assert b"def==" not in b"".join(out)
    assert b"tail" in out[4]
    assert len(out) == len(lines)
    (line,) = through(b'"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n"')
    assert b"MIIE" not in line


def test_a_sequence_that_is_no_colour_hides_no_secret() -> None:
    (out,) = through(b"\x1b\x02 HF_TOKEN=my-secret-value")
    assert b"my-secret-value" not in out


def test_many_lines_at_once_stay_as_many() -> None:
    lines = [STAMP + b"x hf_AbCdEfGhIjKl"] * 5 + [STAMP + b"y"]
    assert Redactor().redact_lines(lines) == [STAMP + b"x " + REDACTED.encode()] * 5 + [STAMP + b"y"]


def test_a_secret_that_ends_within_a_character_is_redacted_all_the_same() -> None:
    assert redact_text(f"token={'a' * 499}ü").startswith(f"token={REDACTED}")


def test_a_time_of_thousands_of_digits_is_no_failure() -> None:
    (found,) = split_timestamps([b"2026-01-01T00:00:00." + b"1" * 5000 + b"Z "])
    assert found[0] in (0.0, 1767225600.111111111)
