# ruff: noqa: T201, TID251  # a program of its own: it prints, and waits
"""Stands in for programs that need GPUs, the internet or hours: records its calls, and does what others see of it.

One file under many names. It prints one line, `rehearsal: NAME`, where the program itself would print; the recording of
the launchers' steps knows by it where a program ran. The rehearsal says in /rehearsal/faults.json which of them fail.
"""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

HERE = Path("/rehearsal")
REACH_SECONDS = 20.0
"""How long processes of a training wait for each other: their own limits are minutes."""


def main() -> int:
    name, arguments = Path(sys.argv[1]).name, sys.argv[2:]
    record(name, arguments)
    words = [name, *[word for word in arguments[:1] if word.isalpha() and not name.endswith(".sh")]]
    said = " ".join(words)
    fault = fault_of(said)
    print(f"rehearsal: {said}", flush=True)
    if "seconds" in fault:
        time.sleep(fault["seconds"])
    done = DOES.get(said, DOES.get(name, nothing))(arguments, bool(fault.get("nothing")))
    if fault.get("code"):
        print(f"rehearsal: {name} was told to fail", file=sys.stderr, flush=True)
    return int(fault.get("code", 0)) or done


def record(name: str, arguments: list[str]) -> None:
    """One call a file: arguments, environment, folder, as all_reduce.c writes them too."""
    environment = [f"{key}={value}" for key, value in os.environ.items()]
    parts = ["\x1f".join(arguments), "\x1f".join(environment), str(Path.cwd())]
    (HERE / "calls" / f"{time.monotonic_ns():020}-{os.getpid()}-{name}").write_text("\x1e".join(parts))


def fault_of(said: str) -> dict[str, float]:
    faults = json.loads((HERE / "faults.json").read_text())
    found: dict[str, float] = faults.get(said, faults.get(said.split()[0], {}))
    index = os.environ.get("JOB_COMPLETION_INDEX", "0")
    return found if "pod" not in found or str(found["pod"]) == index else {}


def nothing(arguments: list[str], undone: bool) -> int:
    return 0


def nvidia_smi(arguments: list[str], undone: bool) -> int:
    if arguments == ["-L"]:
        for gpu in range(int(os.environ["GPUS_PER_NODE"])):
            print(f"GPU {gpu}: NVIDIA B200 (UUID: GPU-{gpu})")
    if arguments[:1] == ["-pm"]:
        print("Unable to set persistence mode: Insufficient Permissions")
        return 4
    return 0


def git(arguments: list[str], undone: bool) -> int:
    if arguments[0] != "clone":
        folder = Path(arguments[arguments.index("-C") + 1])
        return 0 if (folder / ".git").is_dir() else 128
    address, clone = arguments[-2], Path(arguments[-1])
    (clone / ".git").mkdir(parents=True)
    (clone / "README.md").write_text("x" * 300_000)
    if "harness" in address.lower():
        (clone / "lm_eval").mkdir()
        (clone / "lm_eval/__main__.py").touch()
    if "Pai-Megatron-Patch" in address:
        for path in PAI:
            script = clone / path
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_text(f'exec /rehearsal/bin/{script.name} "$@"\n')
    return 0


PAI = (
    "examples/qwen3/run_mcore_qwen3.sh",
    "examples/qwen3_next/run_mcore_qwen3.sh",
    "toolkits/sft_data_preprocessing/run_build_idxmap_sft_dataset.sh",
    "toolkits/distributed_checkpoints_convertor/scripts/qwen3/run_8xH20.sh",
    "toolkits/distributed_checkpoints_convertor/scripts/qwen3/run_A22B_16xH20.sh",
    "toolkits/distributed_checkpoints_convertor/scripts/qwen3_next/run_8xH20.sh",
)
"""Scripts of Pai-Megatron-Patch that the launchers call."""


def wget(arguments: list[str], undone: bool) -> int:
    folder, address = Path(arguments[arguments.index("-P") + 1]), arguments[-1]
    file = folder / address.rpartition("/")[2]
    if not address.endswith(".tgz"):
        file.write_bytes(b"x" * 50_000)
        return 0
    with tarfile.open(file, "w:gz") as archive:
        for name in ARCHIVES.get(file.stem, (f"{file.stem}/data.txt",)):
            entry = tarfile.TarInfo(name)
            entry.size = 5
            archive.addfile(entry, io.BytesIO(b"data\n"))
    return 0


ARCHIVES: dict[str, tuple[str, ...]] = {}
"""Files in archives whose contents somebody reads."""


def hub(arguments: list[str], undone: bool) -> int:
    flag = "--local-dir" if "--local-dir" in arguments else "--local_dir"
    folder = Path(arguments[arguments.index(flag) + 1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"x" * 400_000)
    return 0


def build_index(arguments: list[str], undone: bool) -> int:
    """The upstream script ends well whether or not its Python did."""
    if not Path(arguments[0]).is_file():
        print(f"FileNotFoundError: {arguments[0]}")
    elif undone:
        print("ModuleNotFoundError: No module named 'megatron'")
    else:
        for end in ("bin", "idx"):
            Path(f"{arguments[3]}_text_document.{end}").write_bytes(b"x" * 1000)
    return 0


def convert(arguments: list[str], undone: bool) -> int:
    nodes, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    if not (Path(arguments[1])).is_dir():
        print(f"{arguments[1]} is not there", file=sys.stderr)
        return 1
    code = meet(nodes, rank)
    if code == 0 and rank == 0 and not undone:
        Path(arguments[2]).mkdir(parents=True, exist_ok=True)
        (Path(arguments[2]) / "latest_checkpointed_iteration.txt").write_text("release")
    return code


def pai_training(arguments: list[str], undone: bool) -> int:
    missing = [path for path in (arguments[23],) if not Path(path).is_dir()]
    for data in arguments[21:23]:
        ends = ("",) if data.endswith(".json") else (".bin", ".idx")
        missing += [data + end for end in ends if not Path(data + end).is_file()]
    if missing:
        print(f"FileNotFoundError: {' '.join(missing)}", file=sys.stderr)
        return 1
    if fault_of("run_mcore_qwen3.sh").get("trains"):
        save = f"{arguments[26]}/checkpoint/pretrain"
        built = ["--train-iters", "40", "--no-load-optim", "--no-load-rng", "--no-save-optim"]
        os.execvp("torchrun", ["torchrun", "--save", save, *built])
    return meet(int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))


def start_rank(save: str, load: str, saves_at_sigterm: bool) -> int:
    """As torchrun does: a rank in a session of its own, which is killed soon after its starter is told to end."""
    words = [sys.executable, "-IS", __file__, "rank", save, load, str(saves_at_sigterm)]
    rank = subprocess.Popen(words, start_new_session=True, env=os.environ | {"LOCAL_RANK": "0"})
    signal.signal(signal.SIGTERM, lambda *_: rank.kill())
    return rank.wait()


def train_steps(save: str, load: str, saves_at_sigterm: str) -> int:
    """Forty steps, a checkpoint after every fifth, and one at SIGTERM, as Megatron writes them."""
    signalled: list[int] = []
    if saves_at_sigterm == "True":
        signal.signal(signal.SIGTERM, lambda number, _: signalled.append(number))
    tracker = "latest_checkpointed_iteration.txt"
    step = int((Path(load) / tracker).read_text()) if load else 0
    while step < 40 and not signalled:
        time.sleep(0.1)
        step += 1
        print(f"rehearsal: step {step} loss {1 / step:.4f}", flush=True)
        if (step % 5 == 0 or signalled) and os.environ["JOB_COMPLETION_INDEX"] == "0":
            folder = Path(save) / f"iter_{step:07d}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".metadata").write_text("weight optimizer rng_state")
            (Path(save) / tracker).write_text(str(step))
    return 0


def value_of(name: str, arguments: list[str]) -> str:
    return arguments[arguments.index(name) + 1] if name in arguments else ""


def torchrun(arguments: list[str], undone: bool) -> int:
    if "--save" in arguments:
        return start_rank(
            value_of("--save", arguments), value_of("--load", arguments), "--exit-signal-handler" in arguments
        )
    told = dict(word.removeprefix("--").split("=", 1) for word in arguments if word.startswith("--"))
    os.environ |= {"MASTER_ADDR": told["master_addr"], "MASTER_PORT": told["master_port"]}
    return meet(int(told["nnodes"]), int(told["node_rank"]))


def megatron(arguments: list[str], undone: bool) -> int:
    if not (Path(os.environ["MEGATRON_LM_PATH"]) / ".git").is_dir():
        print("Megatron-LM is not there", file=sys.stderr)
        return 1
    if fault_of("megatron").get("trains"):
        save = Path(value_of("--save", arguments))
        load = value_of("--load", arguments) if value_of("--finetune", arguments) == "false" else ""
        run = len(list(save.glob("v*-run"))) if load else 0
        return start_rank(f"{save}/v{run}-run", load, any("exit_signal_handler" in word for word in arguments))
    return meet(int(os.environ["NNODES"]), int(os.environ["NODE_RANK"]))


def meet(nodes: int, rank: int) -> int:
    """Meet the other nodes at the master's port, and part from them together, as a training does."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    deadline = time.monotonic() + REACH_SECONDS
    try:
        if rank == 0:
            serve(port, nodes - 1, deadline)
        else:
            visit(address, port, deadline)
    except OSError as error:
        print(f"node {rank} of {nodes} has not met the others at {address}:{port}: {error}", file=sys.stderr)
        return 1
    return 0


def serve(port: int, others: int, deadline: float) -> None:
    with socket.create_server(("0.0.0.0", port)) as listener:
        links = []
        for _ in range(others):
            listener.settimeout(max(0.1, deadline - time.monotonic()))
            links.append(listener.accept()[0])
        for link in links:
            link.sendall(b"g")
        for link in links:
            link.settimeout(REACH_SECONDS)
            if link.recv(1) != b"d":
                raise ConnectionError("a node went away")
        for link in links:
            link.sendall(b"d")
            link.close()


def visit(address: str, port: int, deadline: float) -> None:
    while True:
        try:
            with socket.create_connection((address, port), timeout=2) as link:
                link.settimeout(REACH_SECONDS)
                if link.recv(1) != b"g":
                    raise BrokenPipeError("node 0 went away")
                link.sendall(b"d")
                if link.recv(1) != b"d":
                    raise BrokenPipeError("node 0 went away")
                return
        except BrokenPipeError:
            raise
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def swift(arguments: list[str], undone: bool) -> int:
    Path(arguments[arguments.index("--output_dir") + 1]).mkdir(parents=True, exist_ok=True)
    return 0


def accelerate(arguments: list[str], undone: bool) -> int:
    given = dict(pair.split("=", 1) for pair in arguments[arguments.index("--model_args") + 1].split(","))
    if not Path(given["pretrained"]).is_dir():
        print(f"{given['pretrained']} is not there", file=sys.stderr)
        return 1
    return 0


DOES = {
    "nvidia-smi": nvidia_smi,
    "git": git,
    "wget": wget,
    "huggingface-cli": hub,
    "modelscope": hub,
    "run_build_idxmap_sft_dataset.sh": build_index,
    "run_8xH20.sh": convert,
    "run_A22B_16xH20.sh": convert,
    "run_mcore_qwen3.sh": pai_training,
    "torchrun": torchrun,
    "megatron": megatron,
    "swift": swift,
    "accelerate": accelerate,
}
NAMES = (*DOES, "pip", "lspci")

if __name__ == "__main__":
    if sys.argv[1:] == ["--names"]:
        print(" ".join(NAMES))
    elif sys.argv[1:2] == ["rank"]:
        sys.exit(train_steps(*sys.argv[2:]))
    else:
        sys.exit(main())
