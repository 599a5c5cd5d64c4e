"""Helm's words become our failures; what it prints of a release is read. No cluster."""

import socket

import pytest

from console.errors import (
    Conflict,
    ConsoleError,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    ReleaseFailed,
    Unreachable,
)
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from console.launch.helm import Helm, InvalidValues, kind_and_name, schema_problems, translate_error
from console.launch.install import ChartCatalog
from console.launch.recipes import FieldProblem, LaunchPlan

CATALOGUE = ChartCatalog.from_chart()
VALUES = CATALOGUE.chart_values(LaunchPlan("ddp-smoke", "anna", "team", {}))


@pytest.mark.parametrize(
    ("text", "kind", "failure"),
    [
        ("release name check failed: cannot reuse a name that is still in use", "HelmReleaseError", Conflict),
        (
            'unable to continue with install: ConfigMap "own" in namespace "default" exists and cannot be imported into'
            " the current release: invalid ownership metadata",
            "HelmReleaseError",
            Conflict,
        ),
        ("uninstall: Release not loaded: anna: release: not found", "HelmNotFoundError", NotFound),
        ('create: failed to create: namespaces "nope" not found', "HelmReleaseError", NotFound),
        (
            'list: failed to list: secrets is forbidden: User "eve" cannot list resource "secrets" in API group ""',
            "HelmReleaseError",
            NotAllowed,
        ),
        ("kubernetes cluster unreachable: Unauthorized", "HelmKubeError", NotLoggedIn),
        (
            'kubernetes cluster unreachable: Get "https://127.0.0.1:9/version": dial tcp 127.0.0.1:9: connect:'
            " connection refused",
            "HelmKubeError",
            Unreachable,
        ),
        (
            'unable to build kubernetes objects: resource mapping not found: no matches for kind "JobSet" in version'
            ' "jobset.x-k8s.io/v1alpha2"',
            "HelmReleaseError",
            ReleaseFailed,
        ),
        ("something else", "HelmReleaseError", ReleaseFailed),
    ],
)
def test_helms_words_become_a_failure(text: str, kind: str, failure: type[ConsoleError]) -> None:
    error = translate_error(text, kind, "anna could not be installed")
    assert type(error) is failure
    assert error.message.startswith("anna could not be installed: ")
    assert error.message.endswith(".")
    assert error.hint or failure in {NotFound, ReleaseFailed}


def test_objects_that_a_server_repeats_are_left_out() -> None:
    text = (
        'server-side apply failed for object default/anna jobset.x-k8s.io/v1alpha2, Kind=JobSet: "anna" is invalid:'
        ' spec.replicatedJobs: Invalid value: [{"name":"workload","template":{"spec":{"parallelism":2}}}]: field is'
        " immutable\n\n"
    )
    message = translate_error(text, "HelmReleaseError", "anna could not be changed").message
    assert message.endswith('"anna" is invalid: spec.replicatedJobs: field is immutable.')


def test_no_message_is_longer_than_a_screen() -> None:
    assert len(translate_error("x" * 10_000, "HelmReleaseError", "anna could not be changed").message) < 450


def test_values_that_do_not_fit_are_reported_one_by_one() -> None:
    text = (
        "values don't meet the specifications of the schema(s) in the following chart(s):\na4:\n"
        "- at '/gpus': 'anyOf' failed\n  - at '/gpus': value must be one of 1, 2, 4\n"
        "- at '/placement/tolerations/0/key': got number, want string\n"
    )
    assert schema_problems(text) == (
        FieldProblem("gpus", "'anyOf' failed"),
        FieldProblem("placement.tolerations.0.key", "got number, want string"),
    )
    assert schema_problems("at '/gpus': but from somewhere else") == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('apiVersion: v1\nkind: Secret\nmetadata:\n  name: anna-ssh\n  namespace: "team"\n', ("Secret", "anna-ssh")),
        ('kind: JobSet\nmetadata:\n  labels:\n    name: not-this\n  name: "anna"\n', ("JobSet", "anna")),
        ("# nothing\n", ("", "")),
    ],
)
def test_kind_and_name_are_read_from_the_text(text: str, found: tuple[str, str]) -> None:
    assert kind_and_name(text) == found


async def test_what_the_form_would_have_refused_helm_refuses_too() -> None:
    with pytest.raises(InvalidValues, match="gpus") as raised:
        await Helm().render(CATALOGUE.chart, VALUES | {"gpus": 12}, name="anna", namespace="team")
    assert [problem.path for problem in raised.value.problems] == ["gpus"]


@pytest.mark.parametrize("name", ["a" * 44, "9lives", "Anna"])
async def test_a_name_that_pods_could_not_have_is_refused(name: str) -> None:
    with pytest.raises(ConsoleError, match=r"release name|characters"):
        await Helm().render(CATALOGUE.chart, VALUES, name=name, namespace="team")


async def test_a_chart_without_launchers_says_how_to_give_them() -> None:
    with pytest.raises(ReleaseFailed, match="launchers is empty"):
        await Helm().render(CATALOGUE.chart, VALUES | {"launchers": {}}, name="anna", namespace="team")


@pytest.fixture
def nowhere() -> Login:
    """The login to a server that nobody has started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return Login(Target("c", "u", "default", Cluster(f"https://127.0.0.1:{port}"), User(token="secret-token")))


async def test_a_server_that_is_not_there_is_reported(nowhere: Login) -> None:
    with pytest.raises(Unreachable, match="connection refused") as raised:
        await Helm(nowhere).list_releases("a4")
    assert "secret-token" not in f"{raised.value}{raised.value.hint}"


async def test_helm_prints_nothing(capfd: pytest.CaptureFixture[str], nowhere: Login) -> None:
    await Helm().render(CATALOGUE.chart, VALUES, name="anna", namespace="team")
    with pytest.raises(ConsoleError):
        await Helm(nowhere).list_releases("a4")
    assert capfd.readouterr() == ("", "")
