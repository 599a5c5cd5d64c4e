"""System files of an A4 pod that this machine lacks: disks, RDMA devices, MPI, files of gIB.

Imitated programs answer as in the pod. All other programs in a pod's shell are this machine's.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from pathlib import Path

from console import assets
from practice.node.disks import format_mounts, list_disks
from practice.node.proc_files import NICS
from practice.programs.recipes import worker_host_names
from practice.programs.steps import ProgramContext

_GIB_FILE = "/usr/local/gib/scripts/set_nccl_env.sh"
_HOST_FILE = "/etc/job-worker-services.txt"
_GIB_SCRIPT = """# practice cluster: the variables that Google's documentation of A4 names; the real file sets more
export NCCL_NET=gIB
export NCCL_CROSS_NIC=0
export NCCL_NET_GDR_LEVEL=PIX
export NCCL_P2P_NET_CHUNKSIZE=131072
export NCCL_NVLS_CHUNKSIZE=524288
export NCCL_IB_ADAPTIVE_ROUTING=1
export NCCL_IB_QPS_PER_CONNECTION=4
export NCCL_IB_TC=52
export NCCL_IB_FIFO_TC=84
"""
_READERS = ("cat", "head", "ls", "tail", "wc")
_READ = """#!/bin/sh
# Files that the pod has in other places than this machine.
for word in "$@"; do
    shift
    case "$word" in
        /*) if [ -e {root}"$word" ]; then word={root}"$word"; fi ;;
    esac
    set -- "$@" "$word"
done
exec {program} "$@"
"""
_DF = """#!/bin/sh
# The pod's file systems: of those named, or of all.
case "$*" in
    *--help*|*--version*) exec /bin/df "$@" ;;
esac
exec awk -v here="$PWD" -f {script} {table} "$@"
"""


def rootfs_programs(folder: Path, context: ProgramContext) -> dict[str, str]:
    root = shlex.quote(str(folder / ".root"))
    variables, (python, *words) = assets.module_environment(), assets.module_command("practice.node.nccl_test_command")
    typed = shlex.join([python, *words, str(folder / ".root"), str(context.gpus), str(context.rank)])
    start = f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(variables['PYTHONPATH'])}\nexec {typed}"
    found = {name: _READ.format(root=root, program=f"/bin/{name}") for name in _READERS}
    for name in ("mpirun", "mpiexec", "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "sendrecv_perf"):
        found[name] = f'{start} {name} "$@"\n'
    found["df"] = _DF.format(
        script=shlex.quote(str(Path(__file__).parent.parent / "data" / "df.awk")),
        table=shlex.quote(str(folder / ".bin" / "df.table")),
    )
    found["df.table"] = "".join("\t".join(map(str, each)) + "\n" for each in list_disks(context))
    found["ibv_devices"] = "#!/bin/sh\n" + "".join(f"echo {shlex.quote(line)}\n" for line in _pci_devices(context))
    return found


def write_rootfs(folder: Path, context: ProgramContext) -> None:
    """Write the pod's system files below ``folder/.root``, with the files of its mounts."""
    root = folder / ".root"
    if any(where == "/usr/local/gib" for *_, where in list_disks(context)):
        _write_file(root, _GIB_FILE, _GIB_SCRIPT)
    if context.rank == 0 and context.env.get("HOSTNAME_PREFIX"):
        _write_file(root, _HOST_FILE, "".join(f"{name} slots={context.gpus}\n" for name in worker_host_names(context)))
    for number in range(NICS if context.gpus == NICS else 0):
        _write_file(root, f"/sys/class/infiniband/mlx5_{number}/ports/1/state", "4: ACTIVE\n")
    _write_file(root, "/proc/mounts", format_mounts(context))


def _write_file(root: Path, name: str, text: str) -> None:
    path = root / name.removeprefix("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _pci_devices(context: ProgramContext) -> Iterator[str]:
    yield "    device          \t   node GUID"
    yield "    ------          \t----------------"
    for number in range(NICS if context.gpus == NICS else 0):
        mark = hashlib.sha256(f"{context.env.get('HOSTNAME', '')} {number}".encode()).hexdigest()
        yield f"    mlx5_{number}          \t{mark[:16]}"
