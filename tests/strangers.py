"""Which addresses the tests reach, and whether one is a stranger: neither this machine nor named by a configuration.

Each run of pytest records where Python's sockets connect and which names are looked up, and a test that reaches a
stranger fails. What libcurl, gRPC, Helm and other programs reach is not seen by it.
"""

import ipaddress
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
LOOKS_UP = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
RESERVED = (".invalid", ".example", ".test", ".localhost")
"""Names that nobody can have (RFC 2606), and below addresses that nobody has (RFC 5737, RFC 3849)."""
NOBODY = [ipaddress.ip_network(each) for each in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")]


def is_stranger(host: str) -> bool:
    """Whether an address or a name leads to somebody: to neither this machine nor nobody at all."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host not in {"", "localhost"} and not host.endswith(RESERVED)
    return not (address.is_loopback or address.is_unspecified or any(address in each for each in NOBODY))


class Strangers:
    """The plugin of pytest; an audit hook cannot be taken away again, so there is one in each process."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        sys.addaudithook(self._record)

    def _record(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in CONNECTS and isinstance(address := arguments[1], tuple):
            self.reached[str(address[0])] += 1
        elif event in LOOKS_UP and (host := arguments[0]):
            self.reached[host.decode() if isinstance(host, bytes) else str(host)] += 1

    def take(self) -> Counter[str]:
        """What was reached since this was asked last."""
        taken, self.reached = self.reached, Counter()
        return taken

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        yield
        taken = self.take()
        item.user_properties.append(("reached", dict(taken)))
        if strangers := sorted(filter(is_stranger, taken)):
            pytest.fail(f"It reaches what no configuration names: {', '.join(strangers)}", pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called in the process that prints, for the tests of all workers."""
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == "reached" and isinstance(value, dict):
                    self._all.update(value)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._all:
            reached = ", ".join(f"{host} ({count})" for host, count in self._all.most_common())
            terminalreporter.write_line(f"reached: {reached}")
