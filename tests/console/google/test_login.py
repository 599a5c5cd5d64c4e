"""No credentials, and credentials that have ended: words and a way out."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.auth.exceptions import RefreshError, TransportError

from console.connection_settings import Settings
from console.errors import BadKubeconfig, NotFound, NotLoggedIn, Unreachable
from console.google.account import GoogleAccount
from console.google.api.calls import GoogleSession
from console.google.clusters import ClusterPlace
from console.session import Session
from tests.practice_google import practice_google


class Credentials:
    """Credentials whose token ends in so many seconds; renewing gives another, or fails."""

    def __init__(self, left: float, error: Exception | None = None) -> None:
        self.token, self.renewed = "first", 0
        self.expiry = (datetime.now(UTC) + timedelta(seconds=left)).replace(tzinfo=None)
        self._error = error

    @property
    def valid(self) -> bool:
        return self.expiry > datetime.now(UTC).replace(tzinfo=None)

    def refresh(self, request: object) -> None:
        if self._error is not None:
            raise self._error
        self.renewed += 1
        self.token = "next"
        self.expiry += timedelta(hours=1)


def reach(credentials: Any) -> GoogleSession:
    return GoogleSession(credentials=credentials)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.mark.usefixtures("nobody")
async def test_no_credentials() -> None:
    cloud = GoogleAccount()
    with pytest.raises(NotLoggedIn, match="gcloud auth application-default login"):
        await cloud.list_clusters()
    with pytest.raises(NotFound, match="No cluster is connected"):
        await cloud.cluster_place()
    await cloud.close()


@pytest.mark.usefixtures("nobody")
async def test_a_context_that_only_google_knows_needs_a_login() -> None:
    with pytest.raises(NotLoggedIn):
        await Session.open(Settings(context="gke_lab_us-central1_train"), kinds=())
    with pytest.raises(BadKubeconfig):
        await Session.open(Settings(context="other"), kinds=())


async def test_a_token_is_renewed_while_it_is_still_good() -> None:
    fresh, ending = Credentials(3000), Credentials(100)
    assert (await reach(fresh).token())[0] == "first"
    assert (await reach(ending).token())[0] == "next"
    assert (fresh.renewed, ending.renewed) == (0, 1)


@pytest.mark.parametrize(("error", "kind"), [(RefreshError, NotLoggedIn), (TransportError, Unreachable)])
async def test_a_login_that_has_ended(error: type[Exception], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await reach(Credentials(-10, error("no"))).token()


async def test_a_login_that_has_ended_is_reported_at_once_not_after_all_tries() -> None:
    cloud = GoogleAccount()
    ended: Any = RefreshError
    cloud._sessions[""] = reach(Credentials(-10, ended("invalid_grant: Token has been expired or revoked.")))
    with pytest.raises(NotLoggedIn, match="gcloud auth application-default login"):
        await cloud.list_clusters(["lab"])


async def test_secrets_are_not_shown() -> None:
    assert "first" not in repr(GoogleSession(credentials=Credentials(10), practice_token="first"))  # type: ignore[arg-type]


async def test_a_renamed_context_is_found_by_its_machines_and_its_address() -> None:
    class Connected:
        class target:  # noqa: N801
            class cluster:  # noqa: N801
                server, certificate_authority_data, practice_folder = "https://127.0.0.1:6443", None, None

        class client:  # noqa: N801
            @staticmethod
            async def request(method: str, path: str, **more: object) -> bytes:
                return b'{"items": [{"spec": {"providerID": "gce://practice/us-central1-b/node"}}]}'

    class Watched:
        context, current_connection = "renamed", Connected

    async with practice_google() as (_, practice):
        cloud = GoogleAccount(Watched())  # type: ignore[arg-type]
        cloud._sessions[""] = practice
        assert await cloud.cluster_place() == ClusterPlace("practice", "us-central1", "practice")
