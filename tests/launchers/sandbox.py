"""A pod in a folder: the launchers run for real, the programs around them are stand-ins that record their calls."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from console import assets

UNIT, RECORD = "\x1f", "\x1e"
LIMIT = 30.0
"""Seconds a launcher may take; they take tenths."""

RECORDING = """#!/bin/bash
{{ printf '%s\\x1f' "$@"; printf '\\x1e'; }} >>"$A4_ROOT/calls/{name}"
{{ export -p; echo "in $PWD"; }} >"$A4_ROOT/calls/{name}.environment"
{body}
"""
FOLDERS = ("a4/ssh", "bin", "calls", "etc", "proc/net", "refuse", "root", "third_party/nccl-tests/build", "tmp")
TOOLS = (
    "bash", "cat", "chmod", "cp", "dirname", "du", "env", "grep", "install", "ln", "ls", "mkdir", "mv", "rm", "sed",
    "sleep", "sort", "tee", "timeout", "touch", "wc",
)  # fmt: skip
BODIES = {
    "hostname": "echo pod",
    "ldconfig": 'if [[ "$1" == -p ]]; then echo "libcuda.so.1 => /usr/lib/libcuda.so.1"; fi',
    "nvidia-smi": 'if [[ "$1" == -L ]]; then for i in 0 1 2 3 4 5 6 7; do echo "GPU $i: NVIDIA B200"; done; fi',
    "ssh-keygen": 'echo "public-of $3"',
    "sshd": "true",
    # Refuses as often as refuse/WORKER says.
    "ssh": r"""
for word in "$@"; do if [[ "$word" == *-workload-* ]]; then worker="${word%%.*}"; fi; done
refuse="$A4_ROOT/refuse/$worker"
if [[ -s "$refuse" ]]; then
    left="$(<"$refuse")"
    if ((left > 0)); then echo $((left - 1)) >"$refuse"; exit 255; fi
fi
if [[ "${!#}" == *"&& echo told" ]]; then echo told; exit "${A4_TEST_SSH_CODE:-0}"; fi
""",
    "mpirun": r"""
if [[ "${!#}" == hostname ]]; then for ((i = 0; i < ${A4_TEST_RANKS:-16}; i++)); do echo node; done; exit 0; fi
echo "# Avg bus bandwidth    : 480.5"
exit "${A4_TEST_CODE:-0}"
""",
    "torchrun": 'exit "${A4_TEST_CODE:-0}"',
    # A clone brings the scripts of Pai-Megatron-Patch, which record their calls too.
    "git": r"""
if [[ "$*" == *" describe "* ]]; then echo "${A4_TEST_BRANCH:-}"; fi
if [[ "$*" == *" pull "* ]]; then exit "${A4_TEST_PULL:-0}"; fi
if [[ "$1" == clone ]]; then
    mkdir -p "${!#}/.git"
    if [[ "$*" == *lm-evaluation-harness* ]]; then mkdir -p "${!#}/lm_eval"; fi
    if [[ "$*" == *Pai-Megatron-Patch* ]]; then cp -r "$A4_ROOT/scripts/." "${!#}"; fi
fi
""",
    "wget": 'file="${!#}"; echo data >"$4/${file##*/}"',
    "tar": 'archive="${2##*/}"; mkdir -p "$4/${archive%.tgz}"',
    "pip": 'exit "${A4_TEST_PIP:-0}"',
    "huggingface-cli": 'echo weights >"$4/config.json"; exit "${A4_TEST_HUB:-0}"',
    "hf": 'echo weights >"$4/config.json"',
    "modelscope": 'echo weights >"$5/config.json"; exit "${A4_TEST_HUB:-0}"',
    "accelerate": "true",
    "python3": 'exit "${A4_TEST_IMPORT:-0}"',
    "megatron": 'exit "${A4_TEST_CODE:-0}"',
    "swift": 'exit "${A4_TEST_CODE:-0}"',
}
_CONVERTOR = "toolkits/distributed_checkpoints_convertor/scripts"
SCRIPTS = {
    "examples/qwen3/run_mcore_qwen3.sh": 'exit "${A4_TEST_CODE:-0}"',
    "examples/qwen3_next/run_mcore_qwen3.sh": 'exit "${A4_TEST_CODE:-0}"',
    "toolkits/sft_data_preprocessing/run_build_idxmap_sft_dataset.sh": r"""
mkdir -p "$A4_ROOT$(dirname "$4")"
for end in ${A4_TEST_BUILT-bin idx}; do echo data >"$A4_ROOT$4_text_document.$end"; done
""",
    f"{_CONVERTOR}/qwen3/run_8xH20.sh": 'mkdir -p "$A4_ROOT$3"; exit "${A4_TEST_CONVERT:-0}"',
    f"{_CONVERTOR}/qwen3/run_A22B_16xH20.sh": 'mkdir -p "$A4_ROOT$3"',
    f"{_CONVERTOR}/qwen3_next/run_8xH20.sh": 'mkdir -p "$A4_ROOT$3"',
}
"""Scripts of Pai-Megatron-Patch that the launchers call."""


ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth2\t00000000\t010A000A\t0003\t0\t0\t200\t00000000\t0\t0\t0
eth0\t00000000\t0101000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0001000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
"""
"""The kernel's routes of a pod with more than one interface."""


@dataclass(slots=True)
class Sandbox:
    """One pod: its root folder and its environment."""

    root: Path
    index: int = 0
    nodes: int = 2
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True)
        for name, body in BODIES.items():
            self.program(self.root / "bin" / name, RECORDING.format(name=name, body=body))
        for name in TOOLS:
            # Only these of the machine's programs are seen: a real sshd must never start.
            (self.root / "bin" / name).symlink_to(str(shutil.which(name)))
        for path, body in SCRIPTS.items():
            (self.root / "scripts" / path).parent.mkdir(parents=True, exist_ok=True)
            name = path.rpartition("/")[2]
            self.program(self.root / "scripts" / path, RECORDING.format(name=name, body=body))
        self.program(self.root / "third_party/nccl-tests/build/all_reduce_perf", "#!/bin/bash\n")
        (self.root / "proc/net/route").write_text(ROUTES)
        (self.root / "a4/ssh/id_pods").write_text("key\n")
        (self.root / "a4/ssh/host_key").write_text("key\n")

    def program(self, path: Path, text: str) -> None:
        path.unlink(missing_ok=True)  # it may be a link to a program of this machine
        path.write_text(text)
        path.chmod(0o755)

    def install_gib(self, script: str) -> None:
        (self.root / "usr/local/gib/lib64").mkdir(parents=True)
        (self.root / "usr/local/gib/scripts").mkdir()
        (self.root / "usr/local/gib/scripts/set_nccl_env.sh").write_text(script)

    def variables(self) -> dict[str, str]:
        return {
            "A4_ROOT": str(self.root),
            "A4_POLL_SECONDS": "0.02",
            "A4_RETRY_SECONDS": "0.02",
            "A4_AGAIN_SECONDS": "0",
            "A4_DISCOVERY_SECONDS": "20",
            "A4_GRACE_SECONDS": "40",
            "A4_PLACED_BY": "",
            "A4_PLACED_HOW": "preferred cloud.google.com/gce-topology-block",
            "A4_RECIPE": "nccl-all-reduce",
            "A4_NCCL_BEGIN": "2M",
            "A4_NCCL_END": "16G",
            "A4_NCCL_FACTOR": "2",
            "A4_NCCL_ITERS": "1",
            "A4_NCCL_WARMUP": "10",
            "DOMAIN_NAME": "anna.team.svc.cluster.local",
            "GPUS_PER_NODE": "8",
            "HOSTNAME_PREFIX": "anna-workload-",
            "JOB_COMPLETION_INDEX": str(self.index),
            "MASTER_ADDR": "anna-workload-0-0.anna.team.svc.cluster.local",
            "MASTER_PORT": "6002",
            "NNODES": str(self.nodes),
            "PATH": str(self.root / "bin"),
            "SLEEP_INFINITY": "false",
            "SSH_PUBLIC_KEY": "",
        } | self.environment

    def start(self, script: str, *arguments: str) -> subprocess.Popen[str]:
        command = ["bash", str(assets.launchers_folder() / script), *arguments]
        return subprocess.Popen(
            command, env=self.variables(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, script: str, *arguments: str, code: int = 0, **environment: str) -> list[str]:
        """Lines of a launcher that ends so, every step taking 0 s: a second may tick in the shortest of them."""
        self.environment |= environment
        with self.start(script, *arguments) as process:
            output, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == code, output
        return re.sub(r"done in \d+ s", "done in 0 s", output).splitlines()

    def calls(self, program: str) -> list[list[str]]:
        """The arguments of every call, without the sandbox's own folder: as they are in a pod."""
        file = self.root / "calls" / program
        text = file.read_text().replace(str(self.root), "") if file.exists() else ""
        return [record.split(UNIT)[:-1] for record in text.split(RECORD)[:-1]]

    def text(self, path: str) -> str:
        return (self.root / path).read_text().replace(str(self.root), "")

    def environment_of(self, program: str) -> dict[str, str]:
        """Exported variables of the last call, and its working folder as `in`."""
        lines = self.text(f"calls/{program}.environment").splitlines()
        pairs = [line.removeprefix("declare -x ").partition("=") for line in lines if line.startswith("declare -x ")]
        found = {name: value.strip('"') for name, _, value in pairs}
        return found | {"in": lines[-1].removeprefix("in ")}

    def steps(self, lines: list[str]) -> list[str]:
        """How every step ended: "clone done", "convert skip"."""
        ends = [re.match(r"step \d+ ([-\w]+): (done|skip|failed)", line) for line in lines]
        return [f"{end[1]} {end[2]}" for end in ends if end]
