"""v and D on the page of a job: what is asked, what is set up, what an editor gets, what the doctor says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from console.attach.ssh.editors import DOCTOR_STEPS, Editor, SetupStep, SshHost, SshPlan, StepState
from console.connection_settings import Settings
from console.errors import HostKeyChanged
from screens.app import ConsoleApp
from screens.dialogs.editor_and_tunnel import EditorDialog
from screens.dialogs.question import Confirm
from screens.pages.doctor import DoctorScreen
from screens.pages.job import JobScreen
from screens.pages.jobs import JobsScreen
from tests.fakes import FakeSession
from tests.screens.press import console, press, screen_text, toasts, until, until_shown
from tests.screens.scene import scene

READY = SshPlan(
    namespace="default", job="llama-70b", rank=1, ranks=8, pod="llama-70b-workload-0-1-x7k1", host="a4-llama-70b-1",
    user="root", key_text="id_ed25519 (SHA256:abc)", makes_key=False, adds_key=False,
    config_path="/home/me/.ssh/config", adds_include=False, include_line="Include ~/.ssh/a4/config",
)  # fmt: skip
CODE = Editor(
    "code", "VS Code", link="vscode://vscode-remote/ssh-remote+a4-llama-70b-1/workspace", steps=("Install the thing.",)
)
ZED = Editor("zed", "Zed", "/usr/bin/zed", ("zed", "ssh://a4-llama-70b-1/workspace"), "zed://ssh/a4-llama-70b-1")


class FakeAttach:
    """What the screens need of `session.attach`."""

    def __init__(self, plan: SshPlan = READY, editors: tuple[Editor, ...] = (ZED, CODE)) -> None:
        self.answer: SshPlan | HostKeyChanged = plan
        self.offered = editors
        self.set_up_with: list[SshPlan] = []
        self.started: list[Editor] = []
        self.steps: list[SetupStep] = []

    async def plan_setup(
        self, namespace: str, job: str, rank: int, *, wait: float, needs_server: bool = False
    ) -> SshPlan:
        assert needs_server
        if isinstance(self.answer, HostKeyChanged):
            raise self.answer
        return replace(self.answer, namespace=namespace, job=job, rank=rank)

    async def set_up(self, plan: SshPlan, *, wait: float) -> SshHost:
        self.set_up_with.append(plan)
        notes = ("Created the key pair.",) if plan.makes_key else ()
        return SshHost(plan.namespace, plan.job, plan.rank, plan.host, "root", "/workspace", ("ssh", plan.host),
                       ("SHA256:host",), notes)  # fmt: skip

    async def list_editors(self, host: SshHost) -> tuple[Editor, ...]:
        return self.offered

    async def start_editor(self, editor: Editor) -> None:
        self.started.append(editor)

    async def diagnose(self, namespace: str, job: str, rank: int) -> AsyncIterator[SetupStep]:
        for step in self.steps:
            yield step


@asynccontextmanager
async def job_page(
    attach: FakeAttach, *, read_only: bool = False
) -> AsyncIterator[tuple[ConsoleApp, Pilot[Any], FakeAttach]]:
    """The page of llama-70b, its second rank chosen."""
    settings = Settings(read_only=read_only)
    session = FakeSession(scene(), settings=settings)
    session.attach = attach  # type: ignore[attr-defined]
    async with console(session, settings=settings) as (app, pilot, _):
        app.open_page("job", "default", "llama-70b")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and "x7k1" in screen_text(app))
        await pilot.press("down")
        await pilot.pause()
        yield app, pilot, attach


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_rank_that_is_ready_goes_straight_to_its_editors() -> None:
    async with job_page(FakeAttach()) as (app, pilot, attach):
        await press(pilot, "v", then=lambda: isinstance(app.screen, EditorDialog) and "Zed" in screen_text(app))
        await until_shown(pilot, "ssh a4-llama-70b-1", "SHA256:host", "Enter opens it")
        await press(pilot, "enter", then=lambda: attach.started)
        assert attach.started == [ZED]
        await until(pilot, lambda: "Zed opens a4-llama-70b-1" in toasts(app))


async def test_editors_of_the_first_running_pod_open_from_the_list_of_jobs() -> None:
    session = FakeSession(scene())
    session.attach = attach = FakeAttach()  # type: ignore[attr-defined]
    async with console(session) as (app, pilot, _):
        await press(pilot, "3", then=lambda: isinstance(app.screen, JobsScreen) and app.screen.table.cursor)
        assert isinstance(app.screen, JobsScreen)
        app.screen.table.move_to(("default", "sweep-7"))
        await press(pilot, "v", then=lambda: "sweep-7 has no running pod." in toasts(app))
        app.screen.table.move_to(("default", "llama-70b"))
        await press(pilot, "v", then=lambda: isinstance(app.screen, EditorDialog))
        assert [(plan.job, plan.rank) for plan in attach.set_up_with] == [("llama-70b", 0)]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_key_is_put_there_only_after_a_yes() -> None:
    lacking = replace(READY, adds_key=True, makes_key=True, adds_include=True)
    async with job_page(FakeAttach(lacking)) as (app, pilot, attach):
        await press(pilot, "v", then=lambda: isinstance(app.screen, Confirm))
        text = await until_shown(pilot, "Pod llama-70b-workload-0-1-x7k1 does not know it")
        assert "code --remote ssh-remote+a4-llama-70b-1" in " ".join(text.replace("│", " ").split())
        assert "/home/me/.ssh/config begins with `Include ~/.ssh/a4/config`" in text
        await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen))
        assert attach.set_up_with == []
        await press(pilot, "v", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: isinstance(app.screen, EditorDialog))
        assert [plan.adds_key for plan in attach.set_up_with] == [True]
        assert "Created the key pair." in screen_text(app)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_is_agreed_to_can_be_read_to_its_end() -> None:
    lacking = replace(READY, adds_key=True, key_text=f"a4's own key (SHA256:{'k' * 43})", pod=f"llama-70b-{'x' * 30}")
    async with job_page(FakeAttach(lacking)) as (app, pilot, _):
        await press(pilot, "v", then=lambda: isinstance(app.screen, Confirm))
        await until(pilot, lambda: ", and gets it, for root:" in " ".join(screen_text(app).replace("│", " ").split()))


async def test_without_the_editor_its_link_is_shown_and_copied() -> None:
    async with job_page(FakeAttach(editors=(CODE,))) as (app, pilot, attach):
        await press(pilot, "v", then=lambda: isinstance(app.screen, EditorDialog) and CODE.link in screen_text(app))
        links = {
            segment.style.link
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None
        }
        assert CODE.link in links, "the link can be clicked (OSC 8)"
        assert "Enter copies its link, c copies the ssh command, l the link, Esc" in screen_text(app)
        await press(pilot, "c", then=lambda: app.clipboard == "ssh a4-llama-70b-1")
        await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen) and app.clipboard == CODE.link)
        assert attach.started == []
        assert "Install the thing." in toasts(app)


async def test_a_changed_host_key_is_reported_and_nothing_is_set_up() -> None:
    attach = FakeAttach()
    attach.answer = HostKeyChanged("The host key is now B; it was A, and its pod is the same.", "a4 ssh --forget llama")
    async with job_page(attach) as (app, pilot, _):
        await press(pilot, "v", then=lambda: "it was A, and its pod is the same" in toasts(app))
        assert isinstance(app.screen, JobScreen)
        assert attach.set_up_with == []


async def test_read_only_has_no_editors_and_still_a_doctor() -> None:
    attach = FakeAttach()
    attach.steps = [SetupStep(name, StepState.OK, 0.012, "Fine.") for name in DOCTOR_STEPS]
    async with job_page(attach, read_only=True) as (app, pilot, _):
        assert "VS Code" not in screen_text(app)
        await press(pilot, "v", then=lambda: "read-only: VS Code is off." in toasts(app))
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, DoctorScreen) and "can be reached by ssh" in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_doctor_shows_every_step_and_what_mends_it() -> None:
    attach = FakeAttach()
    names = list(DOCTOR_STEPS)
    at = names.index("port")
    attach.steps = [SetupStep(name, StepState.OK, 0.012, "Fine.") for name in names[:at]]
    attach.steps.append(SetupStep("port", StepState.FAILED, 0.5, "Connection refused.", "Start sshd."))
    attach.steps += [SetupStep(name, StepState.SKIPPED, found="Not tried.") for name in names[at + 1 :]]
    async with job_page(attach) as (app, pilot, _):
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, DoctorScreen) and "Port 2222 failed" in screen_text(app))
        text = screen_text(app)
        assert all(title in text for title in DOCTOR_STEPS.values())
        assert "→ Port 2222: Start sshd." in text
        assert "✗" in text
        attach.steps = [SetupStep(name, StepState.OK, 0.012, "Fine.") for name in names]
        await press(pilot, "r", then=lambda: "can be reached by ssh: a4 ssh llama-70b 1" in screen_text(app))
        await press(pilot, "escape", then=lambda: isinstance(app.screen, JobScreen))


async def test_a_pod_of_a_job_is_a_rank_too() -> None:
    session = FakeSession(scene())
    session.attach = FakeAttach()  # type: ignore[attr-defined]
    async with console(session) as (app, pilot, _):
        app.open_page("pod", "default", "llama-70b-workload-0-3-x7k3")
        await pilot.pause()
        await press(pilot, "v", then=lambda: isinstance(app.screen, EditorDialog))
        assert [plan.rank for plan in session.attach.set_up_with] == [3]  # type: ignore[attr-defined]
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, EditorDialog))
        app.open_page("pod", "kube-system", "kube-dns-7d9f-abcde")
        await until_shown(pilot, "kube-dns")
        await press(pilot, "v", then=lambda: "kube-dns-7d9f-abcde is not a running pod" in toasts(app))
