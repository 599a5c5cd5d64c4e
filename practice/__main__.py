"""`python -m practice`: one practice cluster in a process of its own, until it is told to stop.

In the foreground it prints its kubeconfig and runs until Ctrl-C; with --parent-pipe it is somebody's child: it prints
one line of JSON when it is ready, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

from practice.cluster import PracticeCluster


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m practice", description=__doc__)
    parser.add_argument("--speed", type=float, default=1.0, help="how much faster than life it goes")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same run")
    parser.add_argument("--scene", choices=("full", "empty"), default="full", help="what is there at the start")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--folder", type=Path, help="where the kubeconfig goes; a temporary folder by default")
    parser.add_argument("--parent-pipe", action="store_true", help="print JSON when ready, end with standard input")
    options = parser.parse_args(argv)
    return serve_practice_cluster(
        speed=options.speed,
        seed=options.seed,
        scene=options.scene,
        port=options.port,
        folder=options.folder,
        parent_pipe=options.parent_pipe,
    )


def serve_practice_cluster(
    *,
    speed: float = 1.0,
    seed: int = 0,
    scene: str = "full",
    port: int = 0,
    folder: Path | None = None,
    parent_pipe: bool = False,
) -> int:
    """Serve until Ctrl-C, SIGTERM, or the end of standard input (``parent_pipe``); return the exit code."""
    cluster = PracticeCluster(speed=speed, seed=seed, scene=scene == "full", port=port, folder=folder)
    with suppress(KeyboardInterrupt):  # Ctrl-C before its handler stands
        asyncio.run(_serve_until_ended(cluster, parent_pipe=parent_pipe))
    return 0


async def _serve_until_ended(cluster: PracticeCluster, *, parent_pipe: bool) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    async with cluster:
        _print_kubeconfig(cluster, parent_pipe=parent_pipe)
        if parent_pipe:
            threading.Thread(target=_wait_for_end, args=(loop, over), daemon=True).start()
        await over.wait()


def _wait_for_end(loop: asyncio.AbstractEventLoop, end_event: asyncio.Event) -> None:
    """Set `end_event` when standard input ends; read in a thread, as not every input can be polled."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    with suppress(RuntimeError):  # the loop is over already
        loop.call_soon_threadsafe(end_event.set)


def _print_kubeconfig(cluster: PracticeCluster, *, parent_pipe: bool) -> None:
    if parent_pipe:
        lines = [json.dumps({"kubeconfig": str(cluster.kubeconfig), "url": cluster.url})]
    else:
        lines = [f"KUBECONFIG={cluster.kubeconfig}", f"practice cluster at {cluster.url}; Ctrl-C ends it"]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
