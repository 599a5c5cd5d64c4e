"""`a4 completion`: the words that real shells complete, typed on a terminal."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from screens.__main__ import main
from tests.bench.terminal import Terminal
from tests.kubeconfigs import write_kubeconfig

BIN = Path(sys.executable).parent
SHELLS = {
    "bash": (("bash", "--norc", "--noprofile", "-i"), 'eval "$(a4 completion bash)"'),
    "zsh": (("zsh", "-f", "-i"), 'autoload -U compinit; compinit -u -D; eval "$(a4 completion zsh)"'),
    "fish": (("fish", "--no-config", "-i"), "a4 completion fish | source"),
}
LINES = {
    "a4 lo": "a4 logs ",
    "a4 logs llam": "a4 logs llama-70b ",
    "a4 logs pod/llama-70b-workload-0-7": "a4 logs pod/llama-70b-workload-0-7-",
    "a4 ls llama-70": "a4 ls llama-70b:",
    "a4 launch connec": "a4 launch connectivity ",
    "a4 launch nccl-all-reduce --set recipe.nccl.beg": "a4 launch nccl-all-reduce --set recipe.nccl.begin=",
    "a4 resize a4-sp": "a4 resize a4-spot ",
    "a4 gpus --metric uti": "a4 gpus --metric utilization ",
}
"""What is typed, and what stands there after the tabulator."""


@contextmanager
def interactive(shell: str, home: Path, kubeconfig: Path) -> Iterator[Terminal]:
    """The shell at its prompt, with completion loaded."""
    argv, load = SHELLS[shell]
    environment = {
        "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "XDG_CONFIG_HOME": str(home),
        "KUBECONFIG": str(kubeconfig), "PS1": "$ ",
    }  # fmt: skip
    with Terminal(argv, environment) as terminal:
        terminal.write(f"{load}; echo load''ed\n".encode())
        terminal.wait("the script", lambda text: "\nloaded" in text, 30)
        yield terminal
        terminal.write(b"\x15exit\n")


@pytest.mark.slow(reason="starts a shell that completes a command line")
@pytest.mark.parametrize(
    "shell",
    ["bash", *(pytest.param(each, marks=pytest.mark.programs(each)) for each in ("zsh", "fish"))],
)
def test_a_shell_completes_commands_options_and_names_of_the_cluster(
    shell: str, kubeconfig: Path, tmp_path: Path
) -> None:
    with interactive(shell, tmp_path, kubeconfig) as terminal:
        for typed, completed in LINES.items():
            terminal.write(f"\x15{typed}\t".encode())
            terminal.wait(completed, lambda text, whole=completed: whole in text, 15)  # type: ignore[misc]


def test_the_script_for_zsh_alone_begins_with_a_line_for_zsh(capsys: pytest.CaptureFixture[str]) -> None:
    begins = []
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        begins.append(capsys.readouterr().out.startswith("#compdef a4\n"))
    assert begins == [False, True, False]


def completions(line: str, **environment: str) -> tuple[list[str], str, float]:
    """What the program answers a shell, what it prints on the terminal, and its seconds."""
    began = time.monotonic()
    words = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n"}
    done = subprocess.run(
        ["sh", "-c", f"{BIN / 'a4'} 8>&1 9>/dev/null"],
        env={**os.environ, **words, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.split("\n"), done.stderr, time.monotonic() - began


def test_kubectl_asks_for_the_words_of_its_plugin(tmp_path: Path) -> None:
    """kubectl takes a word a line, and after a colon what its shell may add: 4, nothing of its own."""
    for program in (BIN / "a4", *(Path(__file__).parents[3] / "bin").iterdir()):
        (tmp_path / program.name).symlink_to(program)

    def answered(name: str, *words: str) -> str:
        return subprocess.run([tmp_path / name, *words], capture_output=True, text=True, check=True).stdout

    assert answered("kubectl_complete-a4", "lo") == "logs\n:4\n"
    assert answered("kubectl-a4", "--version").startswith("a4 ")


@pytest.mark.slow(reason="starts a shell that completes a command line")
def test_a_cluster_that_does_not_answer_costs_half_a_second_and_says_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        kubeconfig = str(write_kubeconfig(tmp_path / "kubeconfig", cluster, {"token": "t"}))
        *_, usual = completions("a4 lo")
        found, told, took = completions("a4 logs ", KUBECONFIG=kubeconfig)
    assert (found, told) == ([""], "")
    assert took < 20 * usual + 2, "it waited for the cluster"


@pytest.mark.parametrize("text", ["{", "clusters: 7", ""])
def test_a_kubeconfig_that_cannot_be_used_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    found, told, _ = completions("a4 why ", KUBECONFIG=str(tmp_path / "kubeconfig"))
    assert (found, told) == ([""], "")


def test_what_is_no_name_never_reaches_the_shell(tmp_path: Path) -> None:
    body = b'{"items": [{"metadata": {"name": "good-1"}}, {"metadata": {"name": "$(touch x)"}}, {"metadata": {"name": "a\\u001b[2J"}}]}'  # noqa: E501
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster = {"server": f"http://127.0.0.1:{server.getsockname()[1]}"}
        kubeconfig = str(write_kubeconfig(tmp_path / "kubeconfig", cluster, {"token": "t"}))
        line = {"COMP_LINE": "a4 why ", "COMP_POINT": "7", "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n"}
        asked = subprocess.Popen(
            ["sh", "-c", f"{BIN / 'a4'} 8>&1 9>/dev/null"],
            env={**os.environ, **line, "KUBECONFIG": kubeconfig}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        server.settimeout(20)
        peer, _ = server.accept()
        with peer:
            peer.recv(1 << 16)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            said, _ = asked.communicate(timeout=20)
    assert said.split() == ["good-1"]
