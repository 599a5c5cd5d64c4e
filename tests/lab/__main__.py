"""`python -m tests.lab up`: a lab in the foreground until Ctrl-C; `--nodes` and `--pods` fill it for benchmarks."""

import argparse
import signal
import sys
from types import FrameType
from typing import TextIO

from tests.lab.build import LabError, build
from tests.lab.bulk import Bulk
from tests.lab.control_plane import Lab


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="A real control plane on this machine.")
    parser.add_argument("verb", choices=["build", "up"], help="build the programs only, or start and stay")
    parser.add_argument("--nodes", type=int, default=0, metavar="N", help="this many A4 nodes more")
    parser.add_argument("--pods", type=int, default=0, metavar="N", help="this many running pods more")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        if options.verb == "build":
            _say(str(build().folder), sys.stdout)
        else:
            _serve(options.nodes, options.pods)
    except LabError as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        _say("lab stopped")
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(line: str, stream: TextIO = sys.stderr) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def _serve(nodes: int, pods: int) -> None:
    with Lab(say=_say) as lab:
        if nodes or pods:
            Bulk(lab).fill(nodes, pods)
        _say(f"KUBECONFIG={lab.kubeconfig}", sys.stdout)
        _say(f"logs of the processes in {lab.processes.logs}; of the pods in {lab.logs.folder}; Ctrl-C stops all")
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
