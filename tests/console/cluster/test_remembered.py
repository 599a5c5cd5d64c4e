from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from console.cluster import kubeconfig
from console.cluster.remembered import target
from console.errors import BadKubeconfig

if TYPE_CHECKING:
    from pathlib import Path

KEY = base64.b64encode(b"PRIVATE KEY " * 20).decode()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "a4"


def write(path: Path, server: str = "https://one", **user: object) -> Path:
    contexts = [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "n"}}]
    made = {"current-context": "a", "contexts": contexts, "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}]}  # fmt: skip
    path.write_text(yaml.safe_dump(made))
    return path


def test_the_second_time_no_yaml_is_read_and_no_secret_was_copied(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "config", **{"token": "hunter2-token", "client-key-data": KEY})
    first = target(file, "")
    monkeypatch.setattr(kubeconfig, "load", None)
    second = target(file, "")
    assert vars(second.user) == vars(first.user)
    assert vars(second.cluster) == vars(first.cluster)
    assert (second.context, second.user_name, second.namespace) == ("a", "u", "n")
    (note,) = cache.iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    assert b"hunter2" not in note.read_bytes()
    assert KEY.encode() not in note.read_bytes()
    assert "hunter2" not in repr(second)


def test_a_kubeconfig_that_changed_is_read_again(tmp_path: Path, cache: Path) -> None:
    file = write(tmp_path / "config", token="one")
    assert target(file, "").cluster.server == "https://one"
    write(file, "https://other", token="two")
    found = target(file, "")
    assert (found.cluster.server, found.user.token) == ("https://other", "two")


@pytest.mark.parametrize(
    "user", [{"exec": {"command": "x", "env": [{"name": "A", "value": "s"}]}}, {"auth-provider": {"name": "oidc"}}]
)
def test_what_may_hold_a_secret_elsewhere_is_not_remembered(tmp_path: Path, cache: Path, user: dict[str, Any]) -> None:
    target(write(tmp_path / "config", **user), "")
    assert not cache.exists()


def test_no_cache_folder_and_broken_notes_are_no_trouble(tmp_path: Path, cache: Path) -> None:
    file = write(tmp_path / "config", token="t")
    target(file, "")
    (note,) = cache.iterdir()
    note.write_text("{")
    assert target(file, "").user.token == "t"
    with pytest.raises(BadKubeconfig, match='has no context "b"'):
        target(file, "b")
    with pytest.raises(BadKubeconfig, match="does not exist"):
        target(tmp_path / "nope", "")
