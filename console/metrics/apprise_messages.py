"""Sends alarms through a separate process; of an address, which may hold a password, only the scheme is shown.

The process runs this module, since importing apprise takes a second. Its stdin is JSON: {"to": addresses, "title": …,
"text": …}; without a text nothing is sent. Its stdout is a JSON object: by address the error, empty on success.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from console.assets import CHILD_WORKING_FOLDER, module_command, module_environment
from trainlog import redact_text

SEND_TIMEOUT = 30  # seconds after which the process ends, whatever it waits for
MAX_MESSAGES = 20  # alarms that wait while others are sent; of more only the number is sent
MAX_TEXT = 2000
_SCHEME = re.compile(r"([a-zA-Z0-9+.-]{1,20}://).*", re.DOTALL)


def mask_address(address: str) -> str:
    """The address with everything but its scheme hidden."""
    return _SCHEME.sub(r"\1…", address) if _SCHEME.fullmatch(address) else "…"


async def send_to_all(addresses: Sequence[str], title: str, text: str) -> dict[str, str]:
    """Send a message to all addresses, or only validate them if it is empty; errors by address."""
    clean_title, clean = (
        "".join(each if each.isprintable() or each == "\n" else " " for each in redact_text(words))[:MAX_TEXT]
        for words in (title, text)
    )
    asked = json.dumps({"to": list(addresses), "title": clean_title, "text": clean}).encode()
    try:
        process = await asyncio.create_subprocess_exec(
            *module_command("console.metrics.apprise_messages"),
            cwd=CHILD_WORKING_FOLDER,
            env=module_environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        return dict.fromkeys(addresses, f"the process that sends could not be started: {error.strerror}")
    try:
        answer, _ = await process.communicate(asked)
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        late = process.returncode == -signal.SIGALRM
        why = (
            f"no answer came within {SEND_TIMEOUT} s"
            if late
            else f"the process that sends ended with {process.returncode}"
        )
        return dict.fromkeys(addresses, why)
    failed: list[str] = json.loads(answer)
    return {address: why for address, why in zip(addresses, failed, strict=True) if why}


def format_failures(addresses: Sequence[str], failures: dict[str, str]) -> str:
    """The addresses that failed with the reasons, phrased to end a sentence."""
    return (
        "; ".join(f"{mask_address(each)} (number {addresses.index(each) + 1}): {why}" for each, why in failures.items())
        + "."
    )


class AlarmOutbox:
    """Sends alarms in order, batching those that arrive meanwhile; a failure is reported once."""

    def __init__(self) -> None:
        self._queue: list[tuple[str, str]] = []
        self._omitted_count = 0
        self._failed: set[str] = set()
        self.sending = False  # whether a task sends

    def add_message(self, title: str, text: str) -> None:
        if len(self._queue) < MAX_MESSAGES:
            self._queue.append((title, text))
        else:
            self._omitted_count += 1

    async def send_pending(self, addresses: Callable[[], Sequence[str]], tell: Callable[[str], None]) -> None:
        """Send until nothing is waiting; `tell` gets a sentence about addresses that fail for the first time."""
        try:
            while self._queue:
                waiting, more, to = self._queue, self._omitted_count, addresses()
                self._queue, self._omitted_count = [], 0
                title, text = waiting[0]
                if len(waiting) > 1:
                    title = f"{len(waiting) + more} messages"
                    text = "\n".join(f"{head}: {words}" for head, words in waiting)
                    text += f"\nand {more} more" if more else ""
                failed = await send_to_all(to, title, text)
                if new := {each: why for each, why in failed.items() if each not in self._failed}:
                    tell(f"Not sent to addresses of [notifications] in config.toml: {format_failures(to, new)}")
                self._failed = set(failed)
        finally:
            self.sending = False


def main() -> None:
    signal.alarm(SEND_TIMEOUT)  # what hangs ends with the process
    asked = json.load(sys.stdin)
    with ThreadPoolExecutor(max_workers=8) as threads:
        json.dump(list(threads.map(partial(send_request, asked["title"], asked["text"]), asked["to"])), sys.stdout)


def send_request(title: str, text: str, address: str) -> str:
    """Send to that address; returns the error, empty on success."""
    import apprise

    logging.disable(logging.CRITICAL)  # apprise would write parts of addresses
    message = apprise.Apprise(asset=apprise.AppriseAsset(app_id="a4", app_desc="a4", async_mode=False))
    if not message.add(address):
        return "apprise knows no such address"
    if text and not message.notify(text, title=title, body_format=apprise.NotifyFormat.TEXT):
        return "it refused the message or was not reached"
    return ""


if __name__ == "__main__":
    main()
