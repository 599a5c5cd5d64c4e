"""The one line in the person's ssh config: put there, read by ssh itself, taken away without a trace."""

import os
import socket
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from console.attach.ssh import config_and_known_hosts
from console.attach.ssh.config_and_known_hosts import PodKeys, SshHostEntry, remove_ssh_entries, save_entry
from console.attach.ssh.conflicts import find_foreign_options, find_listeners
from console.attach.ssh.ssh_folder import SshPaths
from console.errors import BadInput
from tests.hostile.payloads import PAYLOADS, RAW

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHGa0wvgvw+Zw1XSjDVyvBM4M7MDx1dyZnPHm8P1vQ6R"
CONFIGS = {
    "empty": b"",
    "hosts": b"Host work\n    HostName work.example\n    User me\n",
    "no newline at the end": b"Host *\n  ServerAliveInterval 60",
    "crlf": b"# mine\r\nHost *\r\n\tUser bob\r\n\r\n",
    "match first": b"Match host a4-* exec \"true\"\n    User nobody\n    Port 1\nHost *\n    ProxyJump bastion\n",
    "includes of its own": b"Include conf.d/*\nInclude \"other file\"\nHost a4-train-0\n    User wrong\n",
    "catch all": b"Host *\n    ProxyCommand nc -x proxy %h %p\n    UserKnownHostsFile /dev/null\n"
                 b"    StrictHostKeyChecking no\n    IdentityFile ~/.ssh/other\n    ControlMaster auto\n",
    "no text": b"\xff\xfe# latin \xe9\nHost x\n  User y\n",
    "blank lines": b"\n\n\n",
}  # fmt: skip


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshPaths:
    monkeypatch.setenv("A4_SSH_FOLDER", str(tmp_path / "dot ssh"))
    return SshPaths.locate()


def entry(**more: object) -> SshHostEntry:
    base: dict[str, object] = {
        "name": "a4-train", "context": "prod", "namespace": "team-b", "job": "train", "ranks": 3,
        "kubeconfig": "/etc/kube config/100%/it's", "program": ("/opt/a 4/bin/a4",), "identity": "/keys/my 100% key",
        "pods": {"0": PodKeys("uid-0", 0, (KEY,))},
    }  # fmt: skip
    return SshHostEntry(**{**base, **more})  # type: ignore[arg-type]


def written(places: SshPaths, content: bytes | None) -> None:
    """The person's config as it was, then a4's host and line."""
    if content is not None:
        places.user.mkdir(mode=0o700)
        places.user_config.write_bytes(content)
        places.user_config.chmod(0o640)
    with places.lock():
        save_entry(places, entry())
    assert config_and_known_hosts.add_include(places)


def read_by_ssh(places: SshPaths, host: str) -> dict[str, str]:
    """Options of a host, as ssh itself understands the person's config."""
    done = subprocess.run(
        ["ssh", "-G", "-F", str(places.user_config), host], capture_output=True, text=True, check=True
    )
    return dict(line.split(" ", 1) for line in reversed(done.stdout.splitlines()) if " " in line)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_config_is_byte_identical_after_undo(places: SshPaths, name: str) -> None:
    written(places, CONFIGS[name])
    assert places.user_config.read_bytes() != CONFIGS[name]
    assert not config_and_known_hosts.add_include(places), "a second time there is nothing to add"
    assert any("was restored" in each for each in remove_ssh_entries())
    assert places.user_config.read_bytes() == CONFIGS[name]
    assert stat.S_IMODE(places.user_config.stat().st_mode) == 0o640
    assert list(places.user.iterdir()) == [places.user_config]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(content=st.binary(max_size=200) | st.text("Host*Match Include#\r\n\t=a4", max_size=80).map(str.encode))
def test_whatever_it_holds_it_comes_back(places: SshPaths, content: bytes) -> None:
    if config_and_known_hosts.INCLUDE_MARK in content or config_and_known_hosts.CREATED_MARK in content:
        return
    places.user.mkdir(mode=0o700, exist_ok=True)
    places.user_config.write_bytes(content)
    config_and_known_hosts.add_include(places)
    assert config_and_known_hosts.is_included(places)
    config_and_known_hosts.remove_include(places)
    assert places.user_config.read_bytes() == content


@pytest.mark.programs("ssh")
@pytest.mark.parametrize("name", ["hosts", "no newline at the end", "crlf", "match first", "catch all", "blank lines"])
def test_ssh_reads_our_hosts_before_the_persons_own(places: SshPaths, name: str) -> None:
    written(places, CONFIGS[name])
    found = read_by_ssh(places, "a4-train-2")
    assert found["user"] == "root"
    assert found["stricthostkeychecking"] in {"true", "yes"}
    assert found["userknownhostsfile"] == str(places.known_hosts)
    assert found["hostkeyalias"] == "a4-train"
    assert found["identitiesonly"] == "yes"
    assert (found["serveraliveinterval"], found["serveralivecountmax"]) == ("10", "3")
    assert found["identityfile"] == "/keys/my 100%% key", "as it is written: ssh replaces %% when it looks for the file"


@pytest.mark.programs("ssh")
def test_what_a_person_starts_on_every_host_is_not_started_in_pods(places: SshPaths) -> None:
    written(places, b"Host *\n  RemoteCommand tmux new -A\n  RequestTTY force\n  ControlPath ~/.ssh/%C\n")
    found = read_by_ssh(places, "a4-train-2")
    assert found.get("remotecommand", "none") == "none"
    assert found["requesttty"] == "auto"
    assert found.get("controlpath", "none") == "none"


@pytest.mark.programs("ssh")
@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (b"Host *\n RemoteCommand tmux\n RequestTTY force\n ControlPath ~/%C\n", ""),
        (b"Host *\n LocalForward 8888 localhost:8888\n", "localforward 8888 [localhost]:8888 of your ssh config"),
        (b"Host *\n DynamicForward 1080\n", "dynamicforward 1080 of your ssh config holds for pods too"),
        (b"Host * !a4-*\n LocalForward 8888 localhost:8888\n", ""),
        (b"ABOVE RemoteCommand tmux\n", "remotecommand tmux of your ssh config is run in the pod in place of"),
        (b"ABOVE RequestTTY force\n", "requesttty force of your ssh config opens a terminal"),
        (b"ABOVE ControlPath /tmp/all\n", "controlpath /tmp/all of your ssh config lets connections to several"),
    ],
)
def test_options_of_a_person_that_break_ours_are_named(places: SshPaths, own: bytes, sentence: str) -> None:
    above = own.removeprefix(b"ABOVE ") if own.startswith(b"ABOVE ") else b""
    written(places, b"" if above else own)
    places.user_config.write_bytes(above + places.user_config.read_bytes())
    found = list(find_foreign_options(places, "a4-train-2"))
    assert [each.startswith(sentence) for each in found] == [True] * bool(sentence)


def test_a_foreign_program_on_the_port_of_a_tunnel_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        [(at, name)] = find_listeners({port}, set()).items()
        assert (at, name.endswith(f"(process {os.getpid()})")) == (port, True)
        assert find_listeners({port}, {os.getpid()}) == {}
    assert find_listeners({port}, set()) == {}


@pytest.mark.programs("ssh")
@pytest.mark.parametrize(
    "context",
    [
        "prod",
        "my prod",
        "$(touch PWNT)`touch PWNT`$HOME",
        "'; touch PWNT; '",
        '"x" %h%%r \\',
        "[bold red]x[/] & | > PWNT",
    ],
)
def test_the_proxy_command_survives_the_shell(
    places: SshPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: str
) -> None:
    monkeypatch.chdir(tmp_path)
    echo = tmp_path / "e c%ho's"
    echo.write_text('#!/bin/sh\nfor each in "$@"; do printf "<%s>" "$each"; done >"$(dirname "$0")/said"\nexit 1\n')
    echo.chmod(0o755)
    with places.lock():
        save_entry(places, entry(program=(str(echo),), context=context))
    config_and_known_hosts.add_include(places)
    subprocess.run(["ssh", "-F", str(places.user_config), "a4-train-1"], capture_output=True, check=False)
    wanted = ["proxy", "--kubeconfig", "/etc/kube config/100%/it's", "--context", context, "-n", "team-b"]
    wanted += ["--entry", "a4-train", "train", "1"]
    assert (tmp_path / "said").read_text() == "".join(f"<{each}>" for each in wanted)
    assert not (tmp_path / "PWNT").exists()
    assert read_by_ssh(places, "otherhost")["hostname"] == "otherhost", "the person's other hosts are read as before"


@pytest.mark.parametrize("attack", PAYLOADS)
def test_a_context_with_control_characters_reaches_no_file(places: SshPaths, attack: str) -> None:
    with places.lock(), suppress(BadInput):
        save_entry(places, entry(context=f"prod{PAYLOADS[attack]}"))
    kept = [path.read_text() for path in places.own.rglob("*") if path.is_file()]
    assert not any(RAW.search(each) for each in kept)


def test_an_entry_that_is_refused_does_not_keep_others_from_being_written(places: SshPaths) -> None:
    with places.lock():
        with pytest.raises(BadInput, match="control character"):
            save_entry(places, entry(context="a\x1bb"))
        save_entry(places, entry(name="a4-other", job="other"))
    assert "Host a4-other-0" in places.config.read_text()


@pytest.mark.programs("ssh")
def test_a_list_of_kubeconfigs_and_the_path_are_pinned(places: SshPaths, tmp_path: Path) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nprintf "%s %s" "$KUBECONFIG" "$PATH" >"$(dirname "$0")/said"\nexit 1\n')
    echo.chmod(0o755)
    with places.lock():
        save_entry(places, entry(program=(str(echo),), kubeconfig="/a b:/c", many=True, path="/usr/bin:/bin:/x y"))
    config_and_known_hosts.add_include(places)
    subprocess.run(["ssh", "-F", str(places.user_config), "a4-train-1"], capture_output=True, check=False)
    assert (tmp_path / "said").read_text() == "/a b:/c /usr/bin:/bin:/x y"


def test_another_home_than_the_accounts_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("A4_SSH_FOLDER", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    places = SshPaths.locate()
    assert config_and_known_hosts.include_line(places) == f"Include {places.config}"
    assert places.config.is_absolute()
    assert not places.config.is_relative_to(tmp_path), "ssh reads the account's config, and so our hosts lie there"


def test_a_line_that_leads_elsewhere_is_replaced(places: SshPaths) -> None:
    places.user.mkdir(mode=0o700)
    mark = config_and_known_hosts.INCLUDE_MARK
    places.user_config.write_bytes(mark + b"\nInclude ~/.ssh/a4/config\nHost work\n    User me\n")
    assert config_and_known_hosts.add_include(places)
    content = places.user_config.read_text()
    assert content.count("Include") == 1
    assert config_and_known_hosts.is_included(places)
    assert config_and_known_hosts.remove_include(places)
    assert places.user_config.read_text() == "Host work\n    User me\n"


def test_files_are_for_this_account_alone(places: SshPaths) -> None:
    old = os.umask(0)
    try:
        written(places, None)
    finally:
        os.umask(old)
    for path in (places.user, places.own, places.jobs):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    files = [path for path in places.user.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}, files
    assert len(files) >= 5


def test_a_folder_that_was_missing_is_missing_again(places: SshPaths) -> None:
    written(places, None)
    remove_ssh_entries()
    assert not places.user.exists()


def test_a_key_pair_of_ours_outlives_the_undo(places: SshPaths) -> None:
    written(places, None)
    places.own_key.write_text("key")
    assert any(str(places.own_key) in each for each in remove_ssh_entries())
    assert places.own_key.read_text() == "key"
    assert not places.config.exists()


def test_a_link_stays_a_link(places: SshPaths, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "ssh-config"
    real.write_bytes(CONFIGS["hosts"])
    places.user.mkdir()
    places.user_config.symlink_to(real)
    config_and_known_hosts.add_include(places)
    assert places.user_config.is_symlink()
    assert real.read_bytes().endswith(CONFIGS["hosts"])
    config_and_known_hosts.remove_include(places)
    assert (places.user_config.is_symlink(), real.read_bytes()) == (True, CONFIGS["hosts"])


@pytest.mark.programs("ssh")
def test_a_linked_folder_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("A4_SSH_FOLDER", str(tmp_path / "link"))
    places = SshPaths.locate()
    with places.lock():
        save_entry(places, entry())
    config_and_known_hosts.add_include(places)
    assert read_by_ssh(places, "a4-train-0")["user"] == "root"
    remove_ssh_entries()
    assert list((tmp_path / "real").iterdir()) == []


def test_a_line_of_the_persons_own_is_enough(places: SshPaths) -> None:
    places.user.mkdir()
    places.user_config.write_text(f"# by hand\n{config_and_known_hosts.include_line(places)}\nHost x\n")
    assert not config_and_known_hosts.add_include(places)
    places.user_config.write_text(f"Host x\n{config_and_known_hosts.include_line(places)}\n")
    assert config_and_known_hosts.add_include(places), "below a Host it holds for that host alone"


def test_a_config_that_cannot_be_written_is_reported_with_the_line(
    places: SshPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.user.mkdir()
    places.user_config.write_bytes(CONFIGS["hosts"])
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(BadInput, match="cannot be changed") as told:
        config_and_known_hosts.add_include(places)
    assert config_and_known_hosts.include_line(places) in told.value.hint
    assert str(places.whole_config) in told.value.hint
    assert places.user_config.read_bytes() == CONFIGS["hosts"]


def test_where_the_folder_cannot_be_written_ours_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A4_SSH_FOLDER", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    account = SimpleNamespace(pw_dir=str(tmp_path))
    monkeypatch.setattr(
        "console.attach.ssh.ssh_folder.pwd.getpwuid", lambda _: account
    )  # who runs this may have used a4
    assert SshPaths.locate().own == tmp_path / "data" / "a4" / "ssh"


@pytest.mark.programs("ssh")
def test_hosts_of_two_clusters_stand_side_by_side(places: SshPaths) -> None:
    with places.lock():
        save_entry(places, entry())
        save_entry(places, entry(name="a4-train.team-c", suffix=".team-c", namespace="team-c"))
    config_and_known_hosts.add_include(places)
    assert read_by_ssh(places, "a4-train-1")["hostkeyalias"] == "a4-train"
    assert read_by_ssh(places, "a4-train-1.team-c")["hostkeyalias"] == "a4-train.team-c"
