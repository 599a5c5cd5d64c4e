"""`a4 ssh`, `a4 code`, `a4 doctor`: SSH to ranks, editors, and diagnosis."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from console.attach.ssh.editors import EDITORS, SetupStep, SshHost, StepState
from console.errors import BadInput, ConsoleError, NotAllowed
from console.kube.find_job import find_job
from console.scheduling.pod_slots import find_pod_slot
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, option, option_of_flags, word, yes_flag
from screens.cli.job_arguments import JOB_KINDS
from screens.cli.open_session import open_session
from screens.cli.output import print_json, print_line, print_result, warn, write_to_terminal
from screens.cli.prompts import ask_line
from screens.sanitize import for_terminal

if TYPE_CHECKING:
    from console.session import Session

BANNER_SECONDS = 6  # seconds until an SSH server has named itself
STEP_MARKS = {StepState.OK: "●", StepState.WARNING: "⚠", StepState.FAILED: "✗", StepState.SKIPPED: "○"}


async def run_ssh(options: SshOptions) -> int:
    """Set up SSH to a rank and run ssh; or write, list or remove host entries. Raises BadInput for wrong arguments."""
    if options.undo or options.forget or not (options.jobs or options.write_config):
        # Remove everything that a4 wrote for ssh, or these jobs' hosts; else list the hosts.
        from console.attach.ssh.ssh_setup import SshAccess

        if options.undo:
            done = await SshAccess.remove_ssh_setup()
            return print_result(options.json, {"done": done}, *done)
        if options.forget:
            if not options.jobs:
                raise BadInput("Name the jobs to forget.", "a4 ssh --undo removes everything.")
            gone: list[str] = []
            for job in options.jobs:
                gone += await SshAccess.remove_named_job(job, context=options.context, namespace=options.namespace)
            return print_result(options.json, {"forgotten": gone}, *(gone or ["There were no such hosts."]))
        hosts = await SshAccess.list_hosts()
        lines = [f"{host.host:32}  {host.namespace}/{host.job} pod {host.rank}" for host in hosts]
        none = "There are no hosts yet: a4 ssh JOB POD makes them."
        return print_result(options.json, {"kind": "hosts", "items": hosts}, *(lines or [none]))
    if options.write_config:
        return await write_hosts(options)
    jobs = options.jobs
    if len(jobs) > 2:
        raise BadInput("Name one job and one pod.", "a4 ssh JOB [POD] [-- COMMAND]")
    async with open_session(options, JOB_KINDS) as session:
        host = await set_up_ssh(session, options, jobs[0], jobs[1] if len(jobs) > 1 else "")
        if options.json and not options.argv:
            print_json(host)
            return 0
        begins = ("-o", f"ConnectTimeout={BANNER_SECONDS}")  # its pod is there: it need not be waited for
        command = [host.command[0], *begins, *host.command[1:], *options.argv]
        if options.demo:  # the practice cluster ends with this process, so it has to stay
            return await asyncio.to_thread(os.spawnvp, os.P_WAIT, command[0], command)
    return exec_program(command)


def exec_program(command: list[str]) -> NoReturn:
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except FileNotFoundError as error:
        raise BadInput(f"`{command[0]}` is not installed.", "Install OpenSSH's client.") from error


async def write_hosts(options: SshOptions) -> int:
    """Write the host entries of these jobs, by default of all running ones."""
    async with open_session(options, JOB_KINDS) as session:
        running = [
            name
            for (where, name), job in session.fleet.jobsets.items()
            if where == session.namespace and not job.finished and not job.suspended
        ]
        gone_by = await session.attach.remove_ended()
        hosts, failed = [], None
        for job in options.jobs or sorted(running):
            try:
                hosts.append(await set_up_ssh(session, options, job, ""))
            except ConsoleError as error:
                warn(f"{job}: {error}")
                failed = error
    lines = (f"{host.host}  {host.namespace}/{host.job}" for host in hosts)
    print_result(options.json, {"hosts": hosts, "forgotten": gone_by}, *lines)
    return failed.exit_code if failed else 0


async def set_up_ssh(session: Session, options: SshOptions | CodeOptions, job: str, rank: str) -> SshHost:
    """Set up SSH to a rank, reporting on standard error. BadInput for pod/NAME, NotAllowed if a key is declined."""
    fleet = await session.wait_until_listed(*JOB_KINDS)
    find_job(fleet, session.namespace, job)
    number = find_pod_slot(fleet, session.namespace, job, rank).number
    if number < 0:
        raise BadInput(
            "ssh by name needs a job and the index of a pod, not pod/NAME.", "a4 shell opens a shell in any pod."
        )
    attach = session.attach
    opens = isinstance(options, CodeOptions)
    plan = await attach.plan_setup(
        session.namespace, job, number, identity_file=options.identity, report=warn, needs_server=opens
    )
    if plan.adds_key and not options.yes:
        # Ask whether to put the key into the pod; NotAllowed if declined.
        what = f"Pod {plan.pod} does not know your key. Put {plan.key_text} into it, for {plan.user}?"
        if plan.ranks > 1:
            what += f" The other pods of {plan.job} get it when you connect to them."
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise NotAllowed(
                what.partition("?")[0].replace(". Put", ", and nobody was asked to put") + ".", "Add --yes."
            )
        if await ask_line(f"{what} [y/N] ") not in {"y", "yes"}:
            raise NotAllowed(f"Nothing was changed: {plan.pod} lacks your key.")
    share = options.share if isinstance(options, SshOptions) else None
    host = await attach.set_up(plan, identity=options.identity, share=share)
    if not options.quiet:
        for note in host.notes:
            warn(note)
    return host


async def run_code(options: CodeOptions) -> int:
    """Open a rank in a local editor; without one, print its link and manual steps."""
    async with open_session(options, JOB_KINDS) as session:
        host = await set_up_ssh(session, options, options.job, options.rank_text)
        attach = session.attach
        folder = options.at or ""
        if options.editor:
            editor = await attach.find_editor(options.editor, host, folder)
        else:
            editor = (await attach.list_editors(host, folder))[0]
        opened = bool(editor.command) and not options.json
        if opened:
            await attach.start_editor(editor)
    if options.json:
        print_json({"host": host, "editor": editor})
    elif opened:
        print_line(f"{editor.title} opens {host.host}.")
    else:
        # The editor's link, which can be clicked where a terminal knows OSC 8, and the steps by hand.
        if editor.link:
            if sys.stdout.isatty():
                link = for_terminal(editor.link)
                write_to_terminal(sys.stdout, f"\x1b]8;;{link}\x1b\\{link}\x1b]8;;\x1b\\\n")
            else:
                print_line(editor.link)
        for number, step in enumerate(editor.steps, 1):
            print_line(f"{number}. {step}")
        print_line(f"In a terminal: {' '.join(host.command)}")
    return 0


async def run_doctor(options: DoctorOptions) -> int:
    """Diagnose SSH to a rank step by step; returns the exit code of the failed step."""
    found: list[SetupStep] = []
    async with open_session(options, ()) as session:
        diagnosis = session.attach.diagnose(session.namespace, options.job, options.rank_text or "0")
        async with aclosing(diagnosis):
            async for step in diagnosis:
                found.append(step)
                if not options.json:
                    show_step(step)
    if options.json:
        steps = [{"title": each.title, **{name: getattr(each, name) for name in STEP_KEYS}} for each in found]
        pod = options.rank_text or "0"
        print_json({"kind": "doctor", "job": options.job, "rank": pod, "pod_index": pod, "items": steps})
    return max((each.exit_code for each in found), default=0)


STEP_KEYS = ("name", "state", "seconds", "found", "fix")


def show_step(step: SetupStep) -> None:
    took = f"{1000 * step.seconds:6.0f} ms" if step.state is not StepState.SKIPPED else " " * 9
    print_line(f"{STEP_MARKS[step.state]} {step.title:16} {took}  {step.found}")
    if step.fix:
        print_line(f"{'':29}→ {step.fix}")
    sys.stdout.flush()


class KeyOptions(Options):
    identity: Path | None = option(
        "--identity", type=Path, metavar="FILE", help="a key to use instead of the one a4 chooses"
    )
    yes: bool = yes_flag("put the key into a pod that lacks it, unasked")
    quiet: bool = flag("-q", "--quiet", help="do not say what was set up")
    json: bool = json_flag("as JSON; nothing is started")


class SshOptions(KeyOptions):
    jobs: tuple[str, ...] = word("JOB [POD]", nargs="*", help="a job, and a pod of it (0 unless named)")
    write_config: bool = flag("--write-config", help="write the hosts of these jobs, or of all, only")
    forget: bool = flag("--forget", help="remove the hosts and known host keys of these jobs")
    undo: bool = flag("--undo", help="remove everything that a4 wrote for ssh")
    share: bool | None = option_of_flags(
        flag("--share", help="share connections from now on (ControlMaster)"),
        flag("--no-share", default=True, help="no longer share them"),
    )
    argv: tuple[str, ...] = ()
    """The command for ssh and its arguments, typed after `--`."""


class CodeOptions(KeyOptions):
    job: str = word("JOB")
    rank_text: str = word("POD", nargs="?", help="index of the pod in the job (0 unless named)")
    editor: str = option(
        "--editor",
        choices=EDITORS,
        metavar="EDITOR",
        help=f"one of {', '.join(EDITORS)} (default: the first that is on this machine)",
    )
    at: str = option("--folder", metavar="FOLDER", help="in the pod (default: where its image works)")


class DoctorOptions(Options):
    job: str = word("JOB")
    rank_text: str = word("POD", nargs="?", help="index of the pod in the job (0 unless named)")
    json: bool = json_flag()


COMMANDS: Commands = {
    "ssh": Command(
        run_ssh,
        SshOptions,
        usage="a4 ssh JOB [POD] [-- COMMAND ...] | a4 ssh --write-config [JOB ...] | a4 ssh --forget JOB ... "
        "| a4 ssh --undo",
        epilog="Pods of a job get the names a4-JOB-POD for ssh, scp, sftp, rsync and editors. The hosts stand in "
        "~/.ssh/a4/config, which one line of ~/.ssh/config includes; the variable A4_SSH_FOLDER names a folder to use "
        "instead of ~/.ssh. Host keys are read through the API and always checked. Without JOB the hosts are listed. "
        "--forget and --undo need no cluster. JSON: of a pod its host (host, job, namespace, rank: index of the pod, "
        "command, …); of the list kind and items with these keys; of --write-config hosts and forgotten; of --forget "
        "forgotten; of --undo done.",
    ),
    "code": Command(run_code, CodeOptions),
    "doctor": Command(
        run_doctor,
        DoctorOptions,
        epilog="JSON: kind, job, pod_index (and rank, its older name), items: the steps, each with name, title, state "
        "(ok, warning, failed, skipped), seconds, found, fix.",
    ),
}
