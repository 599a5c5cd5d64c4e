"""`a4 proxy`: connects standard input and output to a port of a rank, for ssh's ProxyCommand.

Called by `run_proxy_command` without the rest of the command line: ssh waits for this at every connection.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from console.errors import BadInput, ConsoleError

PROXY_HELP = """usage: a4 proxy [-n N] [--context C] [--kubeconfig FILE] [--port PORT] [--wait SECONDS] JOB POD

Connect standard input and output to a port of a pod of a job, whichever fills that place now: for ssh's ProxyCommand.
POD is the index of the pod in the job (3) or in one replicated job (workers/3); pod/NAME is a pod by its name.

  --port PORT          of the pod (default: 2222, sshd)
  --entry NAME         whose host keys ssh will check (written by `a4 ssh`)
  --wait SECONDS       for the next pod, while there is none (default: 60)
  -n, --namespace N    instead of the context's
  --context C          instead of the kubeconfig's current one
  --kubeconfig FILE    instead of $KUBECONFIG or ~/.kube/config

exit codes: 0 ok, 1 it failed, 2 usage, 3 not allowed, 4 cannot reach the cluster
"""
_OPTIONS = {
    "-n": "namespace",
    "--namespace": "namespace",
    "--context": "context",
    "--kubeconfig": "kubeconfig",
    "--port": "port",
    "--wait": "wait",
    "--entry": "entry",
}
_FLAGS = {"--read-only"}
"""Options without a value; `--read-only` is accepted as a tunnel changes nothing."""
_DEMO_OPTIONS = {"--seed", "--demo-speed"}
"""Options of the practice cluster, each with a value, which stand before the command."""
_USAGE = "Usage: a4 proxy [--port PORT] JOB POD; `a4 proxy --help` says more."


def proxy_arguments(argv: Sequence[str]) -> list[str] | None:
    """The arguments without the word `proxy`; None for another command."""
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in _OPTIONS or argv[at] in _DEMO_OPTIONS else 1
    return [*argv[:at], *argv[at + 1 :]] if argv[at : at + 1] == ["proxy"] else None


def run_proxy_command(argv: Sequence[str]) -> int:
    try:
        words, given = parse_arguments(argv)
        if words is None:
            sys.stdout.write(PROXY_HELP)
            return 0
        asyncio.run(relay_to_rank(words, given))
        code = 0
    except ConsoleError as error:
        sys.stderr.write(f"a4: {error}\n")
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    sys.stderr.flush()
    os._exit(code)  # there is nothing to put in order, and tearing the interpreter down takes as long as a handshake


def parse_arguments(argv: Sequence[str]) -> tuple[list[str] | None, dict[str, str]]:
    """Parse the command line: (positional arguments, options); None for `--help`. BadInput for an unknown option."""
    words: list[str] = []
    given: dict[str, str] = {}
    rest = list(argv)
    while rest:
        each = rest.pop(0)
        name, equals, value = each.partition("=")
        if each in {"-h", "--help"}:
            return None, {}
        if each in _FLAGS:
            continue
        if each.startswith("-n") and each not in _OPTIONS and not each.startswith("--"):
            given["namespace"] = each[2:]
        elif name in _OPTIONS:
            if not equals and not rest:
                raise BadInput(f"{name} wants a value.", _USAGE)
            given[_OPTIONS[name]] = value if equals else rest.pop(0)
        elif each.startswith("-"):
            raise BadInput(f"There is no option {each}.", _USAGE)
        else:
            words.append(each)
    return words, given


async def relay_to_rank(arguments: Sequence[str], options: dict[str, str]) -> None:
    """Connect standard input and output to the sshd of the rank `arguments` (JOB POD). Raises BadInput."""
    from console.attach.tunnel.local_forward import POD_TIMEOUT, PortForwarder
    from console.attach.tunnel.relay import load_login, relay_stdio
    from console.kube.pod_address import SSH_PORT, PodAddress, PortPair

    if not 1 <= len(arguments) <= 2:
        raise BadInput("Name a job and a pod.", _USAGE)
    port = PortPair.parse(options.get("port", str(SSH_PORT))).remote
    limit = _parse_seconds(options["wait"]) if "wait" in options else POD_TIMEOUT
    kubeconfig = Path(options["kubeconfig"]) if options.get("kubeconfig") else None
    who = load_login(kubeconfig, options.get("context", ""))
    address = PodAddress.parse(options.get("namespace") or who.target.namespace, *arguments)
    gc.enable()  # from here on the process may live for days
    pipe, pod = await PortForwarder(who).open_pipe(address, port, limit_seconds=limit, report=warn)
    if name := options.get("entry"):
        from console.attach.ssh.proxy_connection import ensure_current_pod

        await ensure_current_pod(who, name, pod)
    await relay_stdio(pipe)


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise BadInput(f"{text} is not a number of seconds.", _USAGE)
    return seconds


def warn(text: str) -> None:
    sys.stderr.write(f"a4: {text}\n")
    sys.stderr.flush()
