"""Fixtures of more than one folder: the lab, one for the whole run, started when the first test asks for it."""

import asyncio
import gc
import os
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.notifications import Notification

from tests.lab.control_plane import Lab
from tests.programs import missing
from tests.slowness import Slowness
from tests.strangers import Strangers

# Commands that tests start write to pipes as they do for a person: in blocks, unless they say otherwise.
os.environ.pop("PYTHONUNBUFFERED", None)
os.environ["NO_GCE_CHECK"] = "true"  # no login asks whether this is a machine of Google's

# How long a machine under load takes to make inputs says nothing about what is tested.
settings.register_profile("a4", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("a4")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two a core for tests that wait for half of their time; each worker takes six seconds to begin."""
    cores = os.cpu_count() or 1
    return min(cores + 1 if "not slow" in config.option.markexpr else 2 * cores, 16)


def pytest_configure(config: pytest.Config) -> None:
    scripts = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["scripts"]
    if absent := set(scripts) - entry_points(group="console_scripts").names:
        old = f"The checkout is newer than its .venv, which has no {', '.join(sorted(absent))}"
        raise pytest.UsageError(f"{old}: run `rm .venv/.ready; make .venv/.ready`.")
    config.pluginmanager.register(Strangers(), "strangers")
    config.pluginmanager.register(Slowness(config), "slowness")


def pytest_collection_finish() -> None:
    """What thousands of collected tests are made of stays to the end: looking through all of it for garbage, every few
    tests, took a third of the time of those that draw screens, and looking through what one test makes, a sixth.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that runs programs of other packages fails where they are not installed, and says which."""
    for mark in item.iter_markers("programs"):
        if told := missing(mark.args):
            pytest.fail(told, pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes what the person who runs it has kept."""
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "A4_SSH_FOLDER"):
        os.environ[variable] = str(tmp_path_factory.mktemp(variable.lower()))
    os.environ["NO_GCE_CHECK"] = "true"  # nor asks the machine's metadata server for credentials


TURNS = 40
"""Turns of the event loop that follow a key: more than its messages need to reach the last widget."""


@pytest.fixture(scope="session", autouse=True)
def settling() -> Iterator[None]:
    """After a key or a pause the event loop turns so many times, on any machine.

    Textual's own pilot waits until the process uses no processor time, and so goes on too early where it gets none: a
    test that depends on that fails now and then on a busy machine. Here it fails always, and has to wait for what it
    expects.
    """

    async def turn(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    with pytest.MonkeyPatch.context() as patched:
        for module in ("textual.app", "textual.pilot"):
            patched.setattr(f"{module}.wait_for_idle", turn)
        yield


@pytest.fixture(scope="session", autouse=True)
def toasts() -> Iterator[None]:
    """A toast stays until its test has ended: its seconds may pass before a test on a busy machine looks at it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Notification, "time_left", 3600.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def styles() -> Iterator[None]:
    """What Textual parses of its style sheets serves every app of a worker: each app would parse all of it again."""
    parse = Stylesheet._parse_rules
    parsed: dict[object, list[RuleSet]] = {}

    def parse_once(
        sheet: Stylesheet,
        css: str,
        read_from: tuple[str, str],
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        key = (css, read_from, is_default_rules, tie_breaker, scope)
        if key not in sheet._parse_cache:
            variables = frozenset(sheet._variables.items())
            if (key, variables) not in parsed:
                parsed[key, variables] = parse(sheet, *key)
            sheet._parse_cache[key] = parsed[key, variables]
        return sheet._parse_cache[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with Lab() as running:
        yield running
