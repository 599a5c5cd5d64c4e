"""A test that reaches an address which no configuration names fails."""

import socket
from collections import Counter
from contextlib import suppress

import pytest

from tests.strangers import Strangers, is_stranger


@pytest.mark.parametrize(
    ("host", "strange"),
    [
        ("127.0.0.1", False), ("127.8.0.1", False), ("::1", False), ("::1%lo", False), ("0.0.0.0", False),
        ("localhost", False), ("", False), ("nobody.invalid", False), ("203.0.113.7", False), ("10.0.0.1", True),
        ("2001:db8::1", False), ("fd00::1", True), ("container.googleapis.com", True), ("example.com", True),
    ],
)  # fmt: skip
def test_this_machine_and_reserved_names_are_no_strangers(host: str, strange: bool) -> None:
    assert is_stranger(host) == strange


def test_a_planted_stranger_is_seen_before_anything_is_sent(request: pytest.FixtureRequest) -> None:
    guard = request.config.pluginmanager.get_plugin("strangers")
    assert isinstance(guard, Strangers)
    guard.take()
    closed = socket.socket()
    closed.close()
    with suppress(OSError):
        closed.connect(("10.0.0.1", 443))
    with suppress(OSError):
        socket.getaddrinfo("stranger.com", 443, flags=socket.AI_NUMERICHOST)
    assert guard.take() == Counter({"10.0.0.1": 1, "stranger.com": 1})
