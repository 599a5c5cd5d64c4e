import textwrap
from pathlib import Path

import pytest

from console.errors import BadKubeconfig
from console.kube.kubeconfig import load

GOOD = """
current-context: one
clusters:
- {name: c, cluster: {server: "https://1.2.3.4", certificate-authority: ca.crt}}
users:
- {name: u, user: {token: hunter2}}
contexts:
- {name: one, context: {cluster: c, user: u, namespace: team-a}}
- {name: two, context: {cluster: c, user: u}}
- {name: lost, context: {cluster: gone, user: u}}
- {name: nobody, context: {cluster: c, user: gone}}
"""


@pytest.fixture(autouse=True)
def _no_kubeconfig_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def write(path: Path, text: str = GOOD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def refused(path: Path | None = None, context: str = "") -> BadKubeconfig:
    with pytest.raises(BadKubeconfig) as caught:
        load(path).target(context)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in caught.value.message
    return caught.value


def test_the_current_context_and_another(tmp_path: Path) -> None:
    config = load(write(tmp_path / "config"))
    assert (config.target().context, config.target().namespace) == ("one", "team-a")
    assert (config.target("two").namespace, config.target("two").cluster.server) == ("default", "https://1.2.3.4")
    assert [(each.name, each.current) for each in config.context_names("two")][:2] == [("one", False), ("two", True)]


@pytest.mark.parametrize(
    "value", ["2026-13-41", "9999-12-31T23:59:60Z", "!!int x", "!!bool x", "!!timestamp x", "9" * 5000, "[" * 3000]
)
def test_a_value_that_cannot_be_made_is_refused(tmp_path: Path, value: str) -> None:
    assert "cannot be read as YAML" in refused(write(tmp_path / "config", f"{GOOD}preferences: {value}\n")).message


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    target = load(write(tmp_path / "deep" / "config")).target()
    assert target.cluster.certificate_authority == str(tmp_path / "deep" / "ca.crt")
    for given, found in (("./log-in", f"{tmp_path}/deep/log-in"), ("/bin/log-in", "/bin/log-in"), ("log-in", "log-in")):
        text = GOOD.replace("{token: hunter2}", f"{{exec: {{command: {given}}}}}")
        assert (load(write(tmp_path / "deep" / "config", text)).target().user.exec or {})["command"] == found


def test_a_list_of_files_is_merged_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write(tmp_path / "one", "{current-context: mine, contexts: [{name: mine, context: {cluster: c, user: u}}]}")
    two = write(tmp_path / "two")
    missing = tmp_path / "missing"
    monkeypatch.setenv("KUBECONFIG", f"{one}:{missing}::{two}")
    config = load()
    assert (config.target().context, config.target().cluster.server) == ("mine", "https://1.2.3.4")
    assert [each.name for each in config.context_names("")][:2] == ["mine", "one"]


def test_the_usual_place(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".kube" / "config")
    assert load().target().context == "one"


def test_no_kubeconfig_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused()
    assert error.message == f"No kubeconfig was found: {tmp_path}/home/.kube/config does not exist."
    assert "ctrl+" not in error.hint, "a plain command prints it in a shell"
    assert "a4 --demo" in error.hint
    assert "`a4 clusters`" in error.hint
    assert "gcloud" not in error.hint
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    assert "KUBECONFIG names" in refused().message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere").message == f"The kubeconfig {tmp_path}/nowhere does not exist."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("users: [{name: u, user: {token: hunter2}}\nclusters: - x", "cannot be read as YAML: line 2, column"),
        (
            "users:\n- {name: u, user: {token: [hunter2]}}",
            "has unexpected contents: Expected `str | null`, got `array`",
        ),
        ("[1, 2]", "has unexpected contents"),
        ("just words", "has unexpected contents"),
        ("contexts: [{context: {}}]", "missing required field `name`"),
        ("", "names no current context"),
        ("a:\n\tb: c", "cannot be read as YAML"),
        pytest.param("users:\n" + "- a: b\n" * 70_000, "column 6: it has more than 200,000 entries.", id="many"),
        (b"\xff\xfe\x00token: hunter2", "is not a text file."),
    ],
)
def test_broken_files_are_named_with_what_to_do(tmp_path: Path, text: str | bytes, said: str) -> None:
    (tmp_path / "config").write_bytes(text if isinstance(text, bytes) else text.encode())
    error = refused(tmp_path / "config")
    assert error.message.startswith(f"The kubeconfig {tmp_path}/config ")
    assert said in error.message
    assert error.hint.startswith("Repair that file, or name another" if text else "Give --context")


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in refused(tmp_path).message


def test_an_unknown_context_lists_those_there_are(tmp_path: Path) -> None:
    error = refused(write(tmp_path / "config"), "three")
    assert 'has no context "three"' in error.message
    assert error.hint == "It has: one, two, lost, nobody."


@pytest.mark.parametrize(
    "acts", ["as-uid: 'x'", "as: a, as-groups: [b, c]", 'as: "a\\nb"', "as: a, as-user-extra: {k: [b, c]}"]
)
def test_who_acts_as_another_in_a_way_that_no_header_says_is_refused(tmp_path: Path, acts: str) -> None:
    (tmp_path / "config").write_text(
        "clusters: [{name: c, cluster: {server: 'https://x'}}]\ncurrent-context: c\n"
        f"contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: t, {acts}}}}}]\n"
    )
    assert refused(tmp_path / "config").message.endswith("acts as another in a way that a4 does not know.")


def test_contexts_that_lead_nowhere(tmp_path: Path) -> None:
    path = write(tmp_path / "config")
    assert 'the cluster "gone", which is not in it' in refused(path, "lost").message
    assert 'the user "gone", which is not in it' in refused(path, "nobody").message


def test_in_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = tmp_path / "account"
    write(account / "token", "abc")
    write(account / "namespace", "team-a\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    target = load(service_account=account).target()
    assert (target.cluster.server, target.namespace) == ("https://10.96.0.1:6443", "team-a")
    assert target.user.token_file == str(account / "token")


def test_nothing_that_may_hold_a_secret_shows_it(tmp_path: Path) -> None:
    target = load(write(tmp_path / "config")).target()
    assert "hunter2" not in f"{target!r} {target.user!r} {target.cluster!r}"
