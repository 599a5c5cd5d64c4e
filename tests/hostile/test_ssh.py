"""What a pod says of its user and folder goes into ssh's configuration and to editors: only what is harmless there."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from console.attach.ssh import ssh_folder
from console.attach.ssh.config_and_known_hosts import SshHostEntry, ssh_options
from console.attach.ssh.editors import EDITORS, SshHost, find_editor
from console.attach.ssh.pod_keys import parse_probe, probe_keys
from console.attach.ssh.ssh_folder import SshPaths
from console.errors import BadInput, Unreadable
from tests.apiserver import ApiServer
from tests.console.kube.kubelet import EXEC, Exec

USERS = {
    "a backslash, which leaves a quotation open": "a\\",
    "a zero byte": "root\0",
    "a command for `Match exec`": "$(touch pwned)",
    "a command in backticks": "`id`",
    "an option": "-oProxyCommand=id",
    "a second line's option": "root\tProxyCommand id",
    "quotation marks": 'root" "x',
    "nothing": "",
    "33 letters": "a" * 33,
    "an escape sequence": "\x1b]0;pwned\x07",
}
FOLDERS = {
    "an editor's option": "--install-extension=evil.publisher",
    "another host for Zed": ".evil.example/x",
    "a relative path": "workspace",
    "a control character": "/a\x1b[31m",
    "a right-to-left mark": "/a\u202egpj.sh",
    "nothing": "",
    "a zero byte": "/a\0b",
    "a backslash": "/a\\",
    "5,000 letters": "/" + "a" * 5000,
}


def surroundings(user: str = "root", folder: str = "/workspace") -> str:
    return f"user {user}\nhome /root\nfolder {folder}\nend yes\n"


async def test_a_pod_that_answers_without_end_is_ended_in_words() -> None:
    sent = 0

    async def behave(command: Exec) -> None:
        nonlocal sent
        with suppress(ConnectionError):
            for _ in range(2000):
                await command.say(1, b"user root\n" * 10_000)
                sent += 1

    async with ApiServer() as server, server.client() as client, asyncio.timeout(30):
        server.handlers[EXEC] = Exec(behave)
        with pytest.raises(Unreadable, match="more than 256 KiB"):
            await probe_keys(client, "default", "p")
    assert sent < 1000


def test_an_honest_answer_is_taken() -> None:
    found = parse_probe("pod-0", surroundings("train_1.x-y", "/workspace/a b"))
    assert (found.user, found.working_folder) == ("train_1.x-y", "/workspace/a b")


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        *(({"user": each}, "user name") for each in USERS.values()),
        *(({"folder": each}, "path") for each in FOLDERS.values()),
    ],
)
def test_a_users_name_is_a_name_and_a_folder_a_whole_path(attack: dict[str, str], why: str) -> None:
    with pytest.raises(Unreadable, match=f"not a valid {why}"):
        parse_probe("pod-0", surroundings(**attack))


@pytest.mark.parametrize("name", EDITORS)
@pytest.mark.parametrize("attack", ["an editor's option", "another host for Zed", "a relative path"])
def test_no_editor_is_started_with_such_a_folder(name: str, attack: str) -> None:
    """Also of a host that an earlier version wrote down."""
    host = SshHost("default", "job", 0, "a4-job-0", "root", FOLDERS[attack], ("ssh", "a4-job-0"))
    with pytest.raises(BadInput, match="not a folder of the pod"):
        find_editor(name, host)


@pytest.mark.parametrize("text", ["a\\", 'a"b', "a\nProxyCommand id", "a\0", "a\x1bb"])
def test_no_word_of_a_config_ends_its_line_or_its_quotation(text: str) -> None:
    with pytest.raises(BadInput):
        ssh_folder.quote_word(text)
    with pytest.raises(BadInput):
        ssh_folder.quote_path(text)


def test_nothing_of_the_person_is_forwarded_into_a_pod(tmp_path: Path) -> None:
    entry = SshHostEntry(name="a4-t", context="c", namespace="n", job="t")
    found = dict(ssh_options(SshPaths(tmp_path, tmp_path / "a4"), entry))
    assert [found[each] for each in ("ForwardAgent", "ForwardX11", "PermitLocalCommand")] == ["no", "no", "no"]
    assert found["StrictHostKeyChecking"] == "yes"
