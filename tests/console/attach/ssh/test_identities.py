"""Which key of the person's is used: the agent's, a file's, or one that is made."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.attach.ssh import identities
from console.attach.ssh.ssh_folder import SshPaths
from console.errors import BadInput
from tests.fakes import present

pytestmark = pytest.mark.programs("ssh-keygen", "ssh-agent", "ssh-add")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshPaths:
    monkeypatch.setenv("A4_SSH_FOLDER", str(tmp_path / "ssh"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    found = SshPaths.locate()
    found.create_folders()
    return found


def generate(path: Path, passphrase: str = "") -> str:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", f"of {path.name}", "-f", str(path)]
    subprocess.run(command, check=True)
    return identities.parse_public_key(path.with_name(f"{path.name}.pub").read_text())[0]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    socket = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        yield socket
        process.terminate()


def test_without_a_key_a_pair_is_made_once(places: SshPaths) -> None:
    assert identities.choose_identity(identities.find_identities(places)) is None
    with places.lock():
        made = identities.create_own_key(places)
        again = identities.create_own_key(places)
    assert (made, made.is_own) == (again, True)
    assert identities.choose_identity(identities.find_identities(places)) == made
    assert places.own_key.stat().st_mode & 0o077 == 0


def test_a_file_without_a_passphrase_is_used(places: SshPaths) -> None:
    public = generate(places.user / "id_ed25519")
    chosen = present(identities.choose_identity(identities.find_identities(places)))
    assert (chosen.public_key, chosen.path) == (public, str(places.user / "id_ed25519"))
    assert chosen.comment == "of id_ed25519"


def test_a_file_that_would_ask_is_left_alone(places: SshPaths) -> None:
    generate(places.user / "id_ed25519", "open sesame")
    assert identities.find_identities(places) == []


def test_the_agent_comes_first_and_names_the_file(places: SshPaths, agent: Path, tmp_path: Path) -> None:
    generate(places.user / "id_rsa")
    locked = generate(places.user / "id_ed25519", "")
    elsewhere = generate(tmp_path / "somewhere")
    for path in (places.user / "id_ed25519", tmp_path / "somewhere"):
        subprocess.run(["ssh-add", "-q", str(path)], check=True)
    found = identities.find_identities(places)
    assert [each.public_key for each in found[:2]] == [locked, elsewhere]
    assert found[0].path == str(places.user / "id_ed25519")
    identities.save_public_key(places, found[1])
    assert identities.parse_public_key((places.own / found[1].path.rpartition("/")[2]).read_text())[0] == elsewhere


def test_a_key_that_the_pod_takes_already_wins(places: SshPaths) -> None:
    generate(places.user / "id_ed25519")
    second = generate(places.user / "id_ecdsa")
    chosen = present(identities.choose_identity(identities.find_identities(places), {second}))
    assert chosen.public_key == second


def test_a_named_key_is_taken_as_it_is(places: SshPaths, tmp_path: Path) -> None:
    public = generate(tmp_path / "mine", "with a passphrase")
    for given in (tmp_path / "mine", tmp_path / "mine.pub"):
        assert identities.read_named_key(given).public_key == public
        assert identities.read_named_key(given).path == str(tmp_path / "mine")
    with pytest.raises(BadInput, match="is not a private key"):
        identities.read_named_key(tmp_path / "absent")


def test_fingerprints_are_those_of_ssh(places: SshPaths) -> None:
    public = generate(places.user / "id_ed25519")
    said = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(places.user / "id_ed25519.pub")], capture_output=True, text=True
    )
    assert identities.fingerprint(public) == said.stdout.split()[1]
    assert identities.fingerprint("ssh-ed25519 no-base64!") == ""
