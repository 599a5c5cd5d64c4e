"""Imitations of programs that pods have and this machine may lack: scripts that print recorded output."""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from practice.node.counters import counter_scripts, nvlink_case
from practice.node.proc_files import mpi_program, process_environment, test_command, write_proc_files, write_ras
from practice.node.ras_status import FIRST_PID, rank_count
from practice.node.rootfs import rootfs_programs, write_rootfs
from practice.programs import stacks
from practice.programs.fault_effects import SICK_FACT
from practice.programs.fault_settings import slow_rank
from practice.programs.hangs import HUNG_FACT, doing_in_hang
from practice.programs.launcher_stages import own_script_trains
from practice.programs.nccl import is_single_process
from practice.programs.recipes import lacks_sshd, launcher_at

if TYPE_CHECKING:
    from practice.programs.steps import ProgramContext

_DATA = Path(__file__).parent.parent / "data"
_SSH = Path(__file__).with_name("ssh_command.py")
_SMI = """#!/bin/sh
mode=table program=
case "$*" in
    *topo*)
        echo "practice cluster: a recording on 8 x NVIDIA H200" >&2
        exec cat {topo} ;;
    *--query-gpu*) mode=csv ;;
    *-L*|*--list-gpus*) mode=list ;;
    *-pm*) exit 0 ;;
    {nvlink}
esac
case "$*" in
    *--query-gpu*clocks*) ;;
    *) echo "practice cluster: these readings are made up; no GPU is behind them" >&2 ;;
esac
doing="$(cat {state})"
case "$doing" in
    idle) ;;
    test) program={test} ;;
    *) program=/usr/bin/python3 ;;
esac
exec awk -v mode="$mode" -v fields="$*" -v doing="$doing" -v gpus={gpus} -v stuck="$(cat {quiet})" -v seed={rank} \\
    -v sick="$(cat {sick})" -v program="$program" -v first={first} -v uuids={uuids} -f {live}
"""

_PS = """#!/bin/sh
# Lines of `ps aux` for what the pod would run.
doing="$(cat {state})"
echo "USER         PID %CPU %MEM COMMAND"
echo "root           1  0.0  0.0 bash /a4/launchers/run.sh"
if [ "$doing" = test ]; then
    {starter}
    pid=1201
    while [ "$pid" -lt {last_test} ]; do
        echo "root        $pid 99.9  0.2 {test}"
        pid=$((pid + 1))
    done
elif [ "$doing" != idle ]; then
    echo "root        1100  0.3  0.1 {torchrun}"
    pid=1201
    while [ "$pid" -lt {last} ]; do
        [ -d {proc}/"$pid" ] && echo "root        $pid 99.0  1.2 {training}"
        pid=$((pid + 1))
    done
fi
"""
_PGREP = """#!/bin/sh
for word in "$@"; do pattern="$word"; done
{ps} | tail -n +2 | grep -E -- "$pattern" | while read -r user pid rest; do echo "$pid"; done
"""
_PY_SPY = """#!/bin/sh
command="$1" output=profile.svg form=flamegraph pid="" halts=yes
while [ $# -gt 0 ]; do
    case "$1" in
        -p|--pid) pid="$2"; shift ;;
        -o|--output) output="$2"; shift ;;
        -f|--format) form="$2"; shift ;;
        -n|--nonblocking) halts="" ;;
    esac
    shift
done
if [ "$command" = --version ]; then echo "py-spy 0.4.1"; exit; fi
doing="$(cat {state})"
if [ "$doing" = idle ] || [ "${{pid:-0}}" -lt 1201 ] || [ "$pid" -ge {last} ] || [ ! -d {proc}/"$pid" ]; then
    echo "Error: No such process (os error 3)" >&2
    exit 1
fi
if [ "$doing" = test ]; then
    echo "Error: Failed to find python version from target process" >&2
    exit 1
fi
case "$(grep ^State {proc}/"$pid"/status)" in
    *T*stopped*)
        printf 'Error: Failed to get stack traces\n\nCaused by:\n    0: Failed to suspend process\n' >&2
        echo "    1: unexpected waitpid result PtraceEvent(Pid($pid), SIGSTOP, 128) to $pid" >&2
        exit 1 ;;
    *D*disk*) [ "$halts" ] && exec sleep 3600 ;;  # it is told to stop, and does not come out of the kernel to do so
esac
echo "practice cluster: these stacks are made up" >&2
if [ "$command" = record ]; then
    case "$form" in
        raw)
            # Of 300 samples of the main thread three are in the data loader; a slow rank is as long as its fault says
            # in it, or in Python's collector.
            late=0
            [ "$doing" = train ] && [ "$pid" -eq {slow} ] && late=$((3 * {percent}))
            echo "thread ($pid): MainThread;{loading} 3" > "$output"
            echo "thread ($pid): MainThread;{late_in} $late" >> "$output"
            echo "thread ($pid): MainThread;{training} $((297 - late))" >> "$output"
            exit ;;
        flamegraph) exec cp {flame}.svg "$output" ;;
        *) exec cp {flame}_speedscope.json "$output" ;;
    esac
fi
exec sed "s/@PID@/$pid/g" {stacks}"$(cat {places}"$pid").txt"
"""
_TRAINING = frozenset({"train", "train-json"})


def activity_of(context: ProgramContext) -> str:
    """Return what the pod's program is doing: idle, test, train, nccl or data (the last two hang)."""
    known = context.room.facts.get("steps", {})
    steps = known.get(context.rank)
    first = known.get(context.rank if is_single_process(context) else 0)  # whose steps show that nccl-tests are running
    if first is not None and first.current == "all-reduce":
        return "test"
    if steps is None or not (steps.current in _TRAINING or (steps.current == "script" and own_script_trains(context))):
        return "idle"
    return "train" if context.room.facts.get(HUNG_FACT) is None else doing_in_hang(context)


def _programs_there(context: ProgramContext) -> tuple[str, ...]:
    """Return the programs of the pod, from its image or installed by the launcher, that are not imitated."""
    return ("torchrun",) if lacks_sshd(context) and launcher_at(context.argv) is None else ("torchrun", "sshd")


def faulty_gpu(context: ProgramContext) -> int | None:
    """Return the local rank whose GPU has a fault (3, or the last if there are fewer GPUs); None if none has."""
    return min(3, context.gpus - 1) if f"{SICK_FACT} {context.rank}" in context.room.facts else None


def write_activity(folder: Path, context: ProgramContext) -> None:
    """Write the files that tell imitated programs the pod's activity and its faulty GPU."""
    doing, sick = activity_of(context), faulty_gpu(context)
    (folder / ".bin" / "sick").write_text("" if sick is None else str(sick))
    known = folder / ".bin" / "doing"
    if not known.exists() or known.read_text() != doing:
        write_proc_files(folder, context, doing)
        known.write_text(doing)
    elif doing not in ("idle", "train"):
        write_ras(folder, context, doing)  # a test may hang by this time, and other pods tell their addresses


_RAS = """#!/bin/sh
case "$*" in
    *json*) [ -s {ras} ] && exec awk -v now="$(date +%s.%N)" -v stamp="$(date "+%F %T")" {counts} -f {live} ;;
    *) [ -s {ras} ] && exec cat {ras} ;;
esac
echo "Failed to connect to the NCCL RAS service: Connection refused" >&2
exit 1
"""
_NC = """#!/bin/sh
# The port where the ranks meet is open while they train.
[ "$(cat {state})" != idle ] && exit 0
echo "Connection refused" >&2
exit 1
"""
_ID = """#!/bin/sh
case "$*" in
    -un) echo root ;;
    -u|-g) echo 0 ;;
    *) exec /usr/bin/id "$@" ;;
esac
"""
_GETENT = """#!/bin/sh
case "$*" in
    "passwd root") echo root:x:0:0:root:{folder}:/bin/bash ;;
    *) exec /usr/bin/getent "$@" ;;
esac
"""
_NOT_RUN = """#!/bin/sh
echo "practice cluster: {name} is not run here" >&2
exit 1
"""
_KEYSCAN = """#!/bin/sh
echo '[127.0.0.1]:2222 {key}'
"""


def write_fake_binaries(
    folder: Path, context: ProgramContext, host_key: str = "", socket: Path = Path("/nowhere")
) -> None:
    """Write the imitated programs into ``folder/.bin``, which comes first in the pod's PATH.

    The pod's user is root with the home ``folder``; its SSH server shows ``host_key`` ("type base64"), and its program
    ssh asks at ``socket`` for the other pods.
    """
    bin_folder = folder / ".bin"
    bin_folder.mkdir()
    state, sick = (shlex.quote(str(bin_folder / name)) for name in ("doing", "sick"))
    proc, last = shlex.quote(process_environment(folder)["A4_PROC"]), FIRST_PID + context.gpus
    calls, training = {}, " ".join(stacks.program_command(context))
    for doing, recorded in stacks.PLACES.items():
        dump = (_DATA / f"pyspy_{recorded}.txt").read_text()
        below = "\n    ".join(stacks.stack_frames(context, doing))
        dump = dump.replace("@COMMAND@", training).replace("@FRAMES@", f"    {below}" if below else "")
        (bin_folder / f"pyspy_{doing}.txt").write_text(dump)
        main = dump.partition('"MainThread"\n')[2].partition("\nThread")[0]
        calls[doing] = ";".join(reversed([line.strip() for line in main.splitlines() if line.strip()]))
    slow = slow_rank(context)
    late_here = slow is not None and slow.launches_late and slow.rank // context.gpus == context.rank
    collector = f"{calls['train'].partition(';')[0]};collect_garbage (train_hooks.py:31)"
    dumps, flame = shlex.quote(str(bin_folder / "pyspy_")), shlex.quote(str(_DATA / "pyspy"))
    files = {key: shlex.quote(str(_DATA / f"nvidia_smi{end}")) for key, end in _ENDINGS.items()}
    node = (context.pod.get("spec") or {}).get("nodeName", "")
    scripts = {
        "nvidia-smi": _SMI.format(
            **files,
            nvlink=nvlink_case(bin_folder),
            state=state,
            sick=sick,
            quiet=shlex.quote(str(bin_folder / "quiet")),
            gpus=context.gpus,
            rank=context.rank,
            first=FIRST_PID,
            uuids=",".join(gpu_uuid(node, gpu) for gpu in range(context.gpus)),
            test=shlex.quote(test_command(context)[0]),
        ),
        "ncclras": _RAS.format(
            ras=shlex.quote(str(bin_folder / "ras")),
            counts=f"$(cat {shlex.quote(str(bin_folder / 'ras_counts'))})",
            live=shlex.quote(str(_DATA / "ncclras.awk")),
        ),
        "nc": _NC.format(state=state),
        "ps": _PS.format(
            state=state,
            proc=proc,
            last=last,
            torchrun=" ".join(stacks.torchrun_command(context)),
            training=training,
            last_test=FIRST_PID + rank_count(context, "test"),
            starter=":" if is_single_process(context) else f'echo "root        1100  0.3  0.1 {mpi_program(context)}"',
            test=" ".join(test_command(context)),
        ),
        "pgrep": _PGREP.format(ps=shlex.quote(str(bin_folder / "ps"))),
        "py-spy": _PY_SPY.format(
            state=state,
            proc=proc,
            last=last,
            places=shlex.quote(str(bin_folder / "stack_")),
            stacks=dumps,
            flame=flame,
            loading=calls["data"],
            training=calls["train"],
            late_in=calls["data"] if slow is not None and slow.cause == "data" else collector,
            slow=FIRST_PID + slow.rank % context.gpus if slow is not None and late_here else 0,
            percent=round(100 * slow.share) if slow is not None else 0,
        ),
        "id": _ID,
        "getent": _GETENT.format(folder=shlex.quote(str(folder))),
        "ssh": f'#!/bin/sh\nexec {shlex.join([sys.executable, "-IS", str(_SSH), str(socket)])} "$@"\n',
        "ssh-keyscan": _KEYSCAN.format(key=host_key),
        "hostname": f"#!/bin/sh\necho {shlex.quote(context.env.get('HOSTNAME', ''))}\n",
        **{name: _NOT_RUN.format(name=name) for name in _programs_there(context)},
        **rootfs_programs(folder, context),
        **counter_scripts(state, context.gpus, context.nodes),
    }
    for name, text in scripts.items():
        path = bin_folder / name
        path.write_text(text)
        path.chmod(0o755)
    write_rootfs(folder, context)


def gpu_uuid(node: str, gpu: int) -> str:
    """Return the driver's UUID for a GPU of a node."""
    mark = hashlib.sha256(f"{node} {gpu}".encode()).hexdigest()
    return f"GPU-{mark[:8]}-{mark[8:12]}-{mark[12:16]}-{mark[16:20]}-{mark[20:32]}"


_ENDINGS = {"topo": "_topo.txt", "live": ".awk"}
