"""A cluster's entry in a kubeconfig: put in whole, at once, for its owner only, and nothing else changed."""

import stat
from pathlib import Path

import pytest
import yaml

from console.errors import BadKubeconfig
from console.kube.kubeconfig import KubeconfigEntry, write_entry

ENTRY = KubeconfigEntry("gke_p_l_c", "https://1.2.3.4", "QUJD", "gke-gcloud-auth-plugin")
THEIRS = """# mine, do not touch
apiVersion: v1
kind: Config
clusters:
- name: home   # at home
  cluster: {server: "https://10.0.0.1"}
contexts:
  # two of them
  - name: home
    context: {cluster: home, user: me}
  - name: other
    context: {cluster: home, user: me, namespace: x}
users:
- name: me
  user: {token: secret}
current-context: other
preferences: {}
"""


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    assert not write_entry(path, ENTRY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["current-context"] == "gke_p_l_c"
    assert config["clusters"][0]["cluster"] == {"server": "https://1.2.3.4", "certificate-authority-data": "QUJD"}
    assert config["users"][0]["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert [each.name for each in path.parent.iterdir()] == ["config"]


def test_nothing_else_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    path.chmod(0o644)
    assert not write_entry(path, ENTRY)
    text = path.read_text()
    added = [line for line in text.splitlines() if line not in THEIRS.splitlines()]
    assert [line for line in text.splitlines() if line in THEIRS.splitlines()] == THEIRS.splitlines()
    assert all(not line.startswith("#") for line in added)
    config = yaml.safe_load(text)
    assert [each["name"] for each in config["contexts"]] == ["gke_p_l_c", "home", "other"]
    assert config["current-context"] == "other"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_entry_of_the_same_name_is_replaced_and_its_namespace_kept(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    write_entry(path, ENTRY)
    config = yaml.safe_load(path.read_text())
    config["contexts"][0]["context"]["namespace"] = "mine"
    path.write_text(yaml.safe_dump(config))
    assert write_entry(path, KubeconfigEntry("gke_p_l_c", "https://5.6.7.8", "", "a4", ("clusters", "token")))
    after = yaml.safe_load(path.read_text())
    assert after["contexts"][0]["context"] == {"cluster": "gke_p_l_c", "user": "gke_p_l_c", "namespace": "mine"}
    assert after["clusters"][0]["cluster"] == {"server": "https://5.6.7.8"}
    assert after["users"][1] == {"name": "me", "user": {"token": "secret"}}


def test_writing_twice_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    write_entry(path, ENTRY)
    once = path.read_text()
    assert write_entry(path, ENTRY)
    assert path.read_text() == once


@pytest.mark.parametrize("text", ["{broken", "just words", "clusters: 5\n"])
def test_what_is_no_kubeconfig_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(BadKubeconfig):
        write_entry(path, ENTRY)
    assert path.read_text() == text


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text(THEIRS)
    link = tmp_path / "config"
    link.symlink_to(real)
    write_entry(link, ENTRY)
    assert link.is_symlink()
    assert "gke_p_l_c" in real.read_text()
