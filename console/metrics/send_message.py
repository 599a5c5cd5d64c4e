"""A separate process that sends one message with apprise, whose import takes a second.

Standard input: {"to": addresses, "title": …, "text": …}, without a text nothing is sent. Standard output: for each
address why it failed, or "".
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from console.metrics.notify import SEND_TIMEOUT


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
