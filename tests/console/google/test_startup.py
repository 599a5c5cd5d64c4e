"""Google's libraries are loaded by whoever asks for Google, and by nobody else."""

import subprocess
import sys

import pytest

LOADED = """
import sys
print([name for name in sys.modules if name.startswith(("google.cloud", "google.auth", "google.api_core", "grpc"))])
"""
MAIN = "from screens.__main__ import main\ntry:\n    main({argv!r})\nexcept SystemExit:\n    pass\n"
SCREENS = """
import asyncio, sys
from practice.child import PracticeProcess
from console.connection_settings import Settings
from screens.app import ConsoleApp
async def look():
    practice = PracticeProcess.start()
    try:
        app = ConsoleApp(Settings(practice=True), practice)
        async with app.run_test(size=(120, 30)) as pilot:
            while not (app.connected and app.fleet.nodes and "screens.pages.what_if" in sys.modules):  # the last page
                await pilot.pause(0.05)
            for key in "1234567":
                await pilot.press(key)
                await pilot.pause()
    finally:
        practice.stop()
asyncio.run(look())
"""


@pytest.mark.slow(reason="starts programs of its own")
@pytest.mark.parametrize(
    "script",
    [
        "".join(MAIN.format(argv=argv) for argv in (["--help"], ["clusters", "--help"], ["--demo", "pools", "--json"])),
        "import practice.cluster, practice.__main__\n"
        "import console.google.account, console.google.node_pools, screens.pages.nodepools\n" + SCREENS,
    ],
    ids=["commands", "modules and the first screens"],
)
def test_no_library_of_googles_is_loaded(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script + LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_news_of_connections_stay_out_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    script = "import os, console.google.api\nprint(os.environ['GRPC_VERBOSITY'])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "ERROR"
