"""A login of a person without a project that its requests count against: what Google says, and what fixes it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.api_core.exceptions import Forbidden

from console.errors import ApiDisabled, NotAllowed
from console.google.api.calls import GoogleSession, google_error
from console.google.api.compute import get_json

MISSING = [
    "Cloud Build API has not been used in project 764086051850 before or it is disabled. Enable it by visiting"
    " https://console.developers.google.com/apis/api/cloudbuild.googleapis.com/overview?project=764086051850",
    "Your application is authenticating by using local Application Default Credentials. The cloudbuild.googleapis.com"
    " API requires a quota project, which is not set by default.",
    "Your application has authenticated using end user credentials from the Google Cloud SDK or Google Cloud Shell"
    " which are not supported by the lustre.googleapis.com.",
]
DENIED = "Caller does not have required permission to use project lab. Grant the caller serviceusage.services.use"


@pytest.mark.parametrize("said", MISSING)
def test_the_command_that_sets_it_is_named(said: str) -> None:
    error = google_error(Forbidden(said), "list the builds")  # type: ignore[no-untyped-call]  # api_core is untyped
    assert isinstance(error, NotAllowed)
    assert not isinstance(error, ApiDisabled), "no service of the person's own project is meant"
    assert error.message == "Could not list the builds: this login has no quota project."
    assert "gcloud auth application-default set-quota-project PROJECT" in error.hint


def test_a_project_that_may_not_be_used_is_named() -> None:
    error = google_error(Forbidden(DENIED), "list the builds")  # type: ignore[no-untyped-call]  # api_core is untyped
    assert isinstance(error, NotAllowed)
    assert "to use project lab" in error.message
    assert "Service Usage Consumer" in error.hint


@pytest.mark.parametrize("said", [MISSING[0], DENIED])
def test_compute_engine_says_it_too(said: str) -> None:
    answer = SimpleNamespace(ok=False, status_code=403, text=json.dumps({"error": {"message": said}}))
    session = SimpleNamespace(get=lambda *_, **__: answer)
    with pytest.raises(NotAllowed) as refused:
        get_json(session, GoogleSession(), "/compute/v1", "list the routers")
    assert "set-quota-project" in refused.value.hint


@pytest.mark.parametrize("by_variable", [True, False])
async def test_one_that_is_set_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool) -> None:
    login = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    path = tmp_path / "adc.json"
    path.write_text(json.dumps(login if by_variable else {**login, "quota_project_id": "lab"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    if by_variable:
        monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "lab")
    credentials: Any = (await GoogleSession.from_login()).credentials
    headers: dict[str, str] = {}
    credentials.apply(headers, token="t")
    assert headers["x-goog-user-project"] == "lab"
