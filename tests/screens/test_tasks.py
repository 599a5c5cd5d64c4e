"""What people come for, on the practice cluster, by no more keys than these; each as a fresh console begins."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from screens.pages.fleet import PoolTable
from screens.theme import LIGHT
from tests.pictures.frozen import Still, still_console, stopped_clock
from tests.screens.press import toasts

OWN_COMMAND = """
[[commands]]
key = "ctrl+y"
name = "Top"
command = "kubectl -n {namespace} top pod -l job={job}"
changes = false
"""
LAUNCH = "launch with another number of GPUs"


@dataclass(frozen=True)
class Task:
    name: str
    keys: tuple[str, ...]
    seen: tuple[str, ...]
    """After each key: what stands on the screen then, for which a person waits."""
    done: Callable[[Still], object] = lambda _: True
    after: str = ""
    """The task that makes what this one is about."""


TASKS = (
    Task("find a faulty node, and why", ("n",),
         ("0015  ✗ reported faulty: PERFORMANCE; failed the last NCCL health scan",)),
    Task("why a job waits, and when it starts", ("2",), ("starts    at once if nccl-0412 or dpo-a3b ends; at the",),
         lambda still: "8 more needed" in still.text()),
    Task("find the NaN line", ("A", "l"), ("loss is NaN since step 118", "nan: 1 of "),
         lambda still: "it 118/1200  loss nan" in still.text()),
    Task("export a curve", ("A", "enter", "S", "enter"),
         ("loss is NaN since step 118", "loss 7.113", "dpo-a3b-training.csv", "dpo-a3b-training.csv"),
         lambda _: Path("dpo-a3b-training.csv").exists()),
    Task("a shell", ("3", "s"), ("▸ rag-eval", "a4 shell pod/rag-eval-workload-0-0-")),
    Task("VS Code", ("3", "v"), ("▸ rag-eval", "Set up SSH to rag-eval?")),
    Task("a command of one's own", ("3", "ctrl+y"), ("▸ rag-eval", "kubectl -n team-b top pod -l job=rag-eval")),
    Task("another theme", ("t",), ("",), lambda still: still.app.theme == LIGHT.name),
    Task(LAUNCH, ("5", "enter", "8", "ctrl+s", "enter"),
         ("▸ NCCL all-reduce", "▸  GPUs", "1 node of 8", "The API server accepts it", "3 Jobs › you-nccl-test "),
         lambda still: still.app.fleet.jobsets["default", "you-nccl-test"].gpus == 8),
    Task("an earlier run again", ("6", "ctrl+s", "enter"),
         ("  nccl-all-reduce", "The API server accepts it", "3 Jobs › you-nccl-test-2 "),
         lambda still: still.app.fleet.jobsets["default", "you-nccl-test-2"].gpus == 8, after=LAUNCH),
    Task("only mine", ("m",), ("eval-32",), lambda still: "dpo-b" not in still.text()),
    Task("stop a job", ("m", "x", "y"), ("▸ you-nccl-test ", "Stop you-nccl-test?", ""),
         lambda still: ("default", "you-nccl-test") not in still.app.fleet.jobsets, after=LAUNCH),
)  # fmt: skip


@pytest.fixture(autouse=True)
def own_state() -> None:
    """A task goes on with what those before have kept."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def begun(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Still, set[str]]]:
    """The console, and the names of the tasks that were done in it."""
    folder = tmp_path_factory.mktemp("tasks")
    config = folder / "xdg_config_home/a4/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(OWN_COMMAND)
    with contextlib.chdir(folder), stopped_clock(folder):
        async with still_console(size=(140, 42)) as still:
            yield still, set()


def sees(still: Still, words: str) -> bool:
    return words in still.text() or words in toasts(still.app)


async def perform(task: Task, still: Still) -> None:
    """From the first page, with every list's cursor on its first row."""
    await still.home()
    await still.press("2", "g", "3", "g", "1")
    still.app.screen.query_one(PoolTable).focus()
    await still.look()
    for key, words in zip(task.keys, task.seen, strict=True):
        await still.press(key)
        await still.until(f"{words!r}: {task.name}", partial(sees, still, words))
    await still.until(task.name, partial(task.done, still))


@pytest.mark.slow(reason="tasks, key by key, in a console on a practice cluster")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_a_task_by_its_keys(task: Task, begun: tuple[Still, set[str]]) -> None:
    still, done = begun
    for each in TASKS:
        if each is task or (each.name == task.after and each.name not in done):
            await perform(each, still)
            done.add(each.name)
