"""The tour: drives the console through its main tasks on the practice cluster.

It needs no terminal. Each step prints what was pressed and what was seen, and leaves a screenshot; it ends well only if
the job ran and its table was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from console.connection_settings import Settings
from console.errors import ConsoleError, ProgramFailed
from console.kube.objects.jobset import JobSet, JobState
from console.kube.snapshot import Fleet
from console.launch.run_record import Outcome
from console.scheduling.pod_slots import pod_slots
from practice.child import PracticeProcess
from screens import wording
from screens.app import ConsoleApp
from screens.cli.output import print_line
from screens.columns.jobs import JOBS
from screens.columns.nodes import POOLS
from screens.columns.queues import QUEUES, WORKLOADS
from screens.dialogs.launch import LaunchLook
from screens.dialogs.question import Confirm
from screens.pages.job import JobScreen
from screens.pages.jobs import JobsScreen
from screens.pages.launch import LaunchScreen
from screens.pages.runs import RunsScreen
from screens.widgets.charts.nccl_panel import NcclPanel
from trainlog import NcclTest, judge_test

if TYPE_CHECKING:
    from textual.pilot import Pilot


TERMINAL_SIZE = 140, 42
TOUR_TIMEOUT = 60.0  # seconds a step may take on a slow machine before the tour gives up
SCREEN_POLL_SECONDS = 0.05  # seconds between two looks at the screen
JOB_NAME = "tour-nccl"
GPU_QUERY = ("nvidia-smi", "--query-gpu=index,name,utilization.gpu,temperature.gpu", "--format=csv")
KEY_NAMES = {"question_mark": "?", "escape": "Esc", "enter": "⏎"}
SCREENSHOT_ROWS = 7  # rows of the table after which a screenshot is taken while the test runs


def run_tour(folder: Path | None, *, speed: float, seed: int) -> int:
    """Run the tour; returns the exit code. Screenshots go to `folder` (default ./tour)."""
    pictures = folder or Path("tour")
    pictures.mkdir(parents=True, exist_ok=True)
    practice = PracticeProcess.start(speed=speed, seed=seed)
    try:
        asyncio.run(_drive_console(ConsoleApp(Settings(practice=True), practice), pictures))
    finally:
        practice.stop()
    print_line(f"\nThe tour is complete. Screenshots: {pictures.resolve()}")
    return 0


async def _drive_console(app: ConsoleApp, screenshot_folder: Path) -> None:
    async with app.run_test(size=TERMINAL_SIZE) as pilot:
        guide = TourGuide(app, pilot, screenshot_folder)
        await guide.show_pages()
        await guide.launch_test()
        await guide.watch_test()
        await guide.run_in_pod()
        await guide.stop_job()
        await guide.show_history()
        await app.action_quit()


@dataclass
class TourGuide:
    """Presses the keys of the tour, waits for the screen, and prints what it shows."""

    app: ConsoleApp
    pilot: Pilot[int]
    screenshot_folder: Path
    screenshot_count: int = 0

    @property
    def fleet(self) -> Fleet:
        return self.app.fleet

    async def show_pages(self) -> None:
        await self.wait_for("the first picture", lambda: self.fleet.nodes and self.fleet.pods and self.fleet.workloads)
        await self.wait_until_drawn()
        self.step("1", "Fleet: node pools and the floor")
        for pool in POOLS.rows(self.fleet):
            nodes = f"{pool['ready']}/{pool['nodes']} nodes ready"
            print_line(f"   {pool['name']}: {nodes}, {pool['free']} of {pool['gpus']} GPUs free")
        self.save_screenshot("fleet")
        await self.press("2", "Queues: who waits for what, and why")
        for queue in QUEUES.rows(self.fleet):
            print_line(
                f"   {queue['name']}: {queue['used']} of {queue['nominal']} GPUs used, {queue['pending']} waiting"
            )
        for row in WORKLOADS.rows(self.fleet):
            if row["why"]:
                print_line(f"   {row['job']} {row['why']}")
        self.save_screenshot("queues")
        await self.press("3", "Jobs: what runs, and is it healthy")
        for job in JOBS.rows(self.fleet):
            print_line(f"   {job['name']}: {job['state']}" + (f", {job['why']}" if job["why"] else ""))
        self.save_screenshot("jobs")
        await self.press("4", "Pods: where everything is")
        print_line(f"   {len(self.fleet.pods)} pods")
        self.save_screenshot("pods")
        await self.press("question_mark", "Help: every key that works here")
        self.save_screenshot("help")
        await self.press("escape", "and back")

    async def launch_test(self) -> None:
        await self.press("5", "Launch: NCCL all-reduce on 16 GPUs")
        page = self.app.screen
        assert isinstance(page, LaunchScreen)
        await self.wait_for("the form", lambda: page.form.texts.get("name"))
        await self.press("enter")
        await self.press("up")
        await self.type_over(JOB_NAME)
        await self.press("down")
        await self.type_over("12")
        problem = page.form.model.problems.get("gpus", "")
        print_line(f"   12 GPUs: {problem}")
        if not problem:
            raise ConsoleError("The form takes 12 GPUs, which no launch can have.")
        await self.type_over("16")
        await self.wait_for("the form to agree", lambda: not page.form.model.problems.get("gpus", ""))
        for path in ("name", "gpus", "queue"):
            print_line(f"   {path}: {page.form.texts[path]}")
        self.save_screenshot("launch")
        await self.press("ctrl+s", "What will be created")
        await self.wait_for("the look before the launch", lambda: is_review_checked(self.app.screen))
        await self.wait_until_drawn()
        self.save_screenshot("preview")
        await self.press("enter", "Launch it")
        await self.wait_for("the job's page", lambda: isinstance(self.app.screen, JobScreen))
        await self.wait_for("admission", lambda: self.job and self.job.state != JobState.PENDING)
        print_line(f"   {JOB_NAME} is admitted: {self.job.gpus if self.job else 0} GPUs")

    async def watch_test(self) -> None:
        page = self.app.screen
        assert isinstance(page, JobScreen)
        await self.wait_for("the job's page", lambda: page.query(NcclPanel))
        panel = page.query_one(NcclPanel)
        self.step("b", "The bandwidth of each size as it is measured")
        shown, halved = 0, False
        while not (panel.test and panel.test.finished):
            await self.wait_for("the next row", partial(has_more_rows, panel, shown))
            shown = self.print_new_rows(panel.test, shown)
            if shown >= SCREENSHOT_ROWS and not halved:
                halved = True
                await self.wait_until_drawn()
                self.save_screenshot("nccl-running")
        self.print_new_rows(panel.test, shown)
        test = panel.test
        if test is None or not test.rows or test.avg_busbw is None:
            raise ConsoleError("The table of the test was not read.")
        print_line(f"   average {test.avg_busbw} GB/s, peak {test.peak_busbw} GB/s, {test.ranks} ranks, ok: {test.ok}")
        verdict = judge_test(test, accelerator=panel.shown.accelerator if panel.shown else "")
        print_line(f"   verdict: {verdict.passing}, {verdict.why}")
        await self.wait_until_drawn()
        self.save_screenshot("nccl")
        for key, what in (("r", "pods"), ("l", "log"), ("e", "events")):
            await self.press(key, f"The job's {what}")
            self.save_screenshot(f"job-{what}")
        await self.wait_for("the job's end", lambda: self.job and self.job.finished)
        if self.job is None or self.job.state is not JobState.SUCCEEDED:
            raise ProgramFailed(f"{JOB_NAME} did not succeed.")

    def print_new_rows(self, test: NcclTest | None, shown_rows: int) -> int:
        """Print a test's rows from number `shown_rows` on; returns how many it has."""
        rows = test.rows if test else ()
        for row in rows[shown_rows:]:
            out, in_ = row.out_of_place, row.in_place
            print_line(
                f"   {wording.size(row.size):>8}  {out.busbw if out else '-':>7}  {in_.busbw if in_ else '-':>7} GB/s"
            )
        return len(rows)

    async def run_in_pod(self) -> None:
        """Run a command in a pod; a shell would need a terminal. Raises ConsoleError if the pod is missing."""
        self.step("s", "A command in pod 0 of llama-70b (a shell would take over the terminal, and there is none)")
        job = self.fleet.jobsets["default", "llama-70b"]
        pod = pod_slots(job, self.fleet)[0].pod
        if pod is None:
            raise ConsoleError("Pod 0 of llama-70b is not there.")
        parts: list[str] = []
        code = await self.app.session.watch.exec(
            pod.namespace, pod.name, GPU_QUERY, on_output=lambda _, data: parts.append(data.decode())
        )
        for line in "".join(parts).splitlines()[:4]:
            print_line(f"   {line}")
        print_line(f"   exit code {code}")

    async def stop_job(self) -> None:
        """Stop the job and check that nothing is left."""
        await self.press("x", f"Stop {JOB_NAME}")
        await self.wait_for("the question", lambda: isinstance(self.app.screen, Confirm))
        await self.wait_until_drawn()
        self.save_screenshot("stop")
        await self.press("y", "Yes")
        await self.wait_for(
            "the end of everything of the release",
            lambda: self.job is None and not any(pod.jobset == JOB_NAME for pod in self.fleet.pods.values()),
        )
        print_line("   nothing of the release is left")
        self.step("escape", "Back to the jobs")
        await self.wait_for("the end of the question", lambda: not isinstance(self.app.screen, Confirm))
        await self.press("escape")
        await self.wait_for("the list of jobs", lambda: isinstance(self.app.screen, JobsScreen))
        await self.wait_until_drawn()
        self.save_screenshot("jobs-after")

    async def show_history(self) -> None:
        await self.press("6", "Runs: what was launched, and how it ended")
        page = self.app.screen
        assert isinstance(page, RunsScreen)
        await self.wait_for("the run in the memory", lambda: page.table.row)
        run = page.table.row
        if run is None or run.outcome is not Outcome.SUCCEEDED or run.average_busbw is None:
            raise ConsoleError(f"The run of {JOB_NAME} is not remembered with its end and its bandwidth.")
        print_line(
            f"   run {run.number}, {run.name}: {run.outcome}, "
            f"peak {run.peak_busbw} GB/s, average {run.average_busbw} GB/s"
        )
        await self.wait_until_drawn()
        self.save_screenshot("runs")

    @property
    def job(self) -> JobSet | None:
        return self.fleet.jobsets.get(("default", JOB_NAME))

    async def type_over(self, text: str) -> None:
        await self.pilot.press("end", "ctrl+u", *text)
        await self.wait_until_drawn()

    # asking and waiting

    def step(self, keys: str, label: str) -> None:
        print_line(f"\n[{KEY_NAMES.get(keys, keys)}] {label}")

    async def press(self, key: str, label: str = "") -> None:
        if label:
            self.step(key, label)
        await self.pilot.press(key)
        await self.wait_until_drawn()

    async def wait_until_drawn(self) -> None:
        """Wait until all pending messages are handled and drawn."""
        await self.pilot.pause()
        await asyncio.sleep(SCREEN_POLL_SECONDS)
        await self.pilot.pause()

    async def wait_for(self, label: str, is_seen: Callable[[], object]) -> None:
        """Wait until `is_seen()` is true. Raises ConsoleError with `label` after STEP_TIMEOUT."""
        async with asyncio.timeout(TOUR_TIMEOUT) as limit:
            try:
                while not is_seen():  # noqa: ASYNC110 - what is waited for is on the screen, which has no event
                    await asyncio.sleep(SCREEN_POLL_SECONDS)
            except asyncio.CancelledError:
                if limit.expired():
                    self.save_screenshot("gave-up")
                    raise ConsoleError(f"The tour waited {TOUR_TIMEOUT:.0f} s for {label}; it did not come.") from None
                raise

    def save_screenshot(self, name: str) -> None:
        self.screenshot_count += 1
        path = self.screenshot_folder / f"{self.screenshot_count:02d}-{name}.svg"
        path.write_text(self.app.export_screenshot())
        print_line(f"   → {path}")


def has_more_rows(panel: NcclPanel, shown_rows: int) -> bool:
    """Whether the panel has more than `shown_rows` rows, or all of them."""
    return panel.test is not None and (panel.test.finished or len(panel.test.rows) > shown_rows)


def is_review_checked(screen: object) -> bool:
    """Whether the review dialog before a launch is open and its checks have ended."""
    return isinstance(screen, LaunchLook) and screen.launches_from is not None and monotonic() >= screen.launches_from
