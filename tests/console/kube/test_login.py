import asyncio
import base64
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.pretty import pretty_repr

from console.errors import BadKubeconfig, NotLoggedIn
from console.kube.backoff import Backoff
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import REREAD_TOKEN_FILE_SECONDS, Login
from console.kube.watch import Changed, Disconnected, HttpSource, follow_kind
from tests.apiserver import ApiServer, alive, eventually, gathered, named
from tests.certificates import make_certificate
from tests.console.kube.objects.recorded import kind


def login(user: User, clock: Any = None, **cluster: Any) -> Login:
    found = Target("ctx", "anna", "default", Cluster(server="https://127.0.0.1:1", **cluster), user)
    return Login(found, **({"clock": clock} if clock else {}))


def program(folder: Path, body: str) -> dict[str, Any]:
    """An exec credential program that runs this Python."""
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\nimport json, sys, os\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "installHint": "Install it so."}


GIVES = """
count = int(open({0!r}).read() or 0) + 1
open({0!r}, "w").write(str(count))
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {{"token": f"secret-{{count}}", **{1!r}}}}}))
"""


def giving(folder: Path, **status: str) -> dict[str, Any]:
    """A program whose tokens are secret-1, secret-2, …"""
    count = folder / "count"
    count.write_text("0")
    return program(folder, GIVES.format(str(count), status))


async def test_tokens_and_passwords() -> None:
    assert await login(User(token="t")).headers() == {"Authorization": "Bearer t"}
    found = await login(User(username="u", password="p")).headers()
    assert base64.b64decode(found["Authorization"].removeprefix("Basic ")) == b"u:p"
    assert await login(User()).headers() == {}
    acting = User(token="t", impersonate="bo", as_uid="7", as_groups=["g"], as_user_extra={"a/b": ["x"]})
    assert await login(acting).headers() == {
        "Authorization": "Bearer t", "Impersonate-User": "bo", "Impersonate-Uid": "7", "Impersonate-Group": "g",
        "Impersonate-Extra-a%2Fb": "x",
    }  # fmt: skip


async def test_a_token_file_is_read_again() -> None:
    now = [1000.0]
    import tempfile

    with tempfile.NamedTemporaryFile("w") as file:
        file.write("one\n")
        file.flush()
        found = login(User(token_file=file.name), clock=lambda: now[0])
        assert await found.headers() == {"Authorization": "Bearer one"}
        file.seek(0)
        file.write("two\n")
        file.flush()
        assert await found.headers() == {"Authorization": "Bearer one"}
        now[0] += REREAD_TOKEN_FILE_SECONDS + 1
        assert await found.headers() == {"Authorization": "Bearer two"}


async def test_a_missing_token_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadKubeconfig, match="cannot be read: No such file"):
        await login(User(token_file=str(tmp_path / "gone"))).headers()


async def test_a_program_is_asked_once_and_again_before_its_token_ends(tmp_path: Path) -> None:
    now = [datetime(2026, 11, 21, 7, 0, tzinfo=UTC).timestamp()]
    found = login(User(exec=giving(tmp_path, expirationTimestamp="2026-11-21T08:00:00Z")), clock=lambda: now[0])
    assert await found.headers() == await found.headers() == {"Authorization": "Bearer secret-1"}
    now[0] += 3600 - 60
    assert await found.headers() == {"Authorization": "Bearer secret-2"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('token expired', file=sys.stderr); sys.exit(1)", "failed with exit code 1: token expired"),
        ("print('no json')", "gave no ExecCredential"),
        ("print('{}')", "gave no ExecCredential"),
        ("print('\\033[2J\\033]52;c;AAAA\\007')", "gave no ExecCredential"),
        ("print('a' * 100_000_000)", "prints more than 1 MiB"),
        ("print('e' * 100_000_000, file=sys.stderr); sys.exit(1)", "failed with exit code -9: eeee"),
        ("__import__('os').system('head -c 3000000 /dev/zero >&2')", "failed with exit code -9"),
        (
            "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'x', 'status': {}}))",
            "gave neither a token nor a certificate",
        ),
    ],
)
async def test_a_program_that_fails_is_named(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(NotLoggedIn) as caught:
        await login(User(exec=program(tmp_path, body))).headers()
    assert said in caught.value.message
    assert "gcloud auth login" in caught.value.hint


async def test_a_token_that_ends_while_a_watch_goes_on_is_renewed_when_that_is_made_anew(tmp_path: Path) -> None:
    path, reader = "/api/v1/pods", kind("pods").reader
    async with ApiServer(secure=True) as server:
        server.tokens = {"secret-1"}
        async with (
            server.client(User(exec=giving(tmp_path))) as client,
            gathered(follow_kind(HttpSource(client, path, "pods"), reader, Backoff(settled=0.0))) as changes,
        ):
            await eventually(lambda: server.watched(path))
            server.tokens = {"secret-2"}
            server.hang_up(path)
            await eventually(lambda: server.watched(path) and (tmp_path / "count").read_text() == "2")
            server.put(path, named("late"))
            await eventually(lambda: any(isinstance(each, Changed) for each in changes))
        assert not [each for each in changes if isinstance(each, Disconnected)]


@pytest.mark.parametrize("renewed", [True, False], ids=["the authority's file is another", "it was somebody else"])
async def test_a_server_with_another_certificate_is_asked_nothing_until_it_is_known(
    tmp_path: Path, renewed: bool
) -> None:
    path, folder = "/api/v1/pods", tmp_path / "other"
    folder.mkdir()
    (tls, authority), (other_tls, other_authority) = (make_certificate(each, days=1) for each in (tmp_path, folder))
    before, after = ApiServer(tls), ApiServer(other_tls)
    await before.start()
    async with (
        before.client(certificate_authority=str(authority)) as client,
        gathered(
            follow_kind(
                HttpSource(client, path, "pods"), kind("pods").reader, Backoff(first_seconds=0.05, max_seconds=0.1)
            )
        ) as changes,
    ):
        await eventually(lambda: before.watched(path))
        await before.stop()
        after.port = before.port
        await after.start()
        await eventually(lambda: "is not from the authority" in str(changes[-1]))
        assert not after.requests
        if renewed:
            authority.write_bytes(other_authority.read_bytes())
        else:
            await after.stop()
            await before.start()
        (after if renewed else before).put(path, named("late"))
        await eventually(lambda: isinstance(changes[-1], Changed))
    await (after if renewed else before).stop()


async def test_a_program_gets_the_cluster_and_is_kept_off_the_terminal(tmp_path: Path) -> None:
    body = """
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
cluster = info["spec"]["cluster"]
cluster = f"{cluster['server']} {cluster['certificate-authority-data']} {cluster['config']['for']}"
token = f"{cluster} {info['spec']['interactive']} {os.environ['ZONE']} {sys.stdin.read()!r}"
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": {"token": token}}))
"""
    spec = {**program(tmp_path, body), "provideClusterInfo": True, "env": [{"name": "ZONE", "value": "b"}]}
    (tmp_path / "ca").write_text("of a file")
    told = [{"name": "client.authentication.k8s.io/exec", "extension": {"for": "it"}}]
    found = await login(User(exec=spec), certificate_authority=str(tmp_path / "ca"), extensions=told).headers()
    assert found == {"Authorization": "Bearer https://127.0.0.1:1 b2YgYSBmaWxl it False b ''"}


async def test_what_a_program_wrongly_says_is_in_no_error(tmp_path: Path) -> None:
    with pytest.raises(NotLoggedIn) as caught:
        await login(User(exec=program(tmp_path, "print('secret-token')"))).headers()
    assert caught.value.__suppress_context__
    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize("child", ["", "os.fork() and os.waitpid(-1, 0); "])
async def test_a_program_is_ended_with_whoever_waits_for_it(tmp_path: Path, child: str) -> None:
    """And so is the one that it has started, which holds its output open."""
    started = tmp_path / "started"
    os.mkfifo(started)
    body = f"{child}open({str(started)!r}, 'w').write(str(os.getpid())); os.read(os.pipe()[0], 1)"
    asked = login(User(exec=program(tmp_path, body)))
    waiting = asyncio.create_task(asked.headers())
    number = int(await asyncio.to_thread(started.read_text))
    assert "has not answered for " in str(asked.unanswered_error())
    assert asked.unanswered_error(10.0) is None, "it is named when it is late"
    waiting.cancel()
    async with asyncio.timeout(10):
        await asyncio.gather(waiting, return_exceptions=True)
    await eventually(lambda: not alive(number))  # a signal takes its time to end a program
    assert asked.unanswered_error() is None


async def test_who_waited_for_a_program_that_fails_does_not_run_it_once_more(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    asked = login(User(exec=program(tmp_path, f"open({str(ran)!r}, 'a').write('x'); sys.exit(1)")))
    found = await asyncio.gather(*(asked.headers() for _ in range(4)), return_exceptions=True)
    assert [type(each) for each in found] == [NotLoggedIn] * 4
    assert ran.read_text() == "x"
    await asyncio.gather(asked.headers(), return_exceptions=True)
    assert ran.read_text() == "xx"


async def test_a_program_that_is_not_installed_says_how_to_get_it() -> None:
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-auth-plugin", "installHint": "Get it."}
    with pytest.raises(NotLoggedIn) as caught:
        await login(User(exec=spec)).headers()
    assert (caught.value.message, caught.value.hint) == (
        "The credential plugin no-such-auth-plugin of the kubeconfig is not installed.",
        "Get it.",
    )


async def test_a_refused_token_is_renewed_once(tmp_path: Path) -> None:
    async with ApiServer(secure=True) as server:
        server.tokens = {"secret-2"}
        async with server.client(User(exec=giving(tmp_path))) as client:
            assert await client.request("GET", "/version", action="ask")
        assert [each.headers["Authorization"] for each in server.requests] == ["Bearer secret-1", "Bearer secret-2"]


async def test_requests_refused_together_renew_once(tmp_path: Path) -> None:
    async with ApiServer(secure=True) as server:
        server.tokens = {"secret-2"}
        async with server.client(User(exec=giving(tmp_path))) as client:
            await asyncio.gather(*(client.request("GET", "/version", action="ask") for _ in range(5)))
        assert (tmp_path / "count").read_text() == "2"


async def test_a_token_that_stays_refused_is_reported(tmp_path: Path, server: ApiServer) -> None:
    server.tokens = {"another"}
    for user in (User(token="mine"), User(exec=giving(tmp_path))):
        server.requests.clear()
        async with server.client(user) as client:
            with pytest.raises(NotLoggedIn) as caught:
                await client.request("GET", "/version", action="ask for the version")
        assert caught.value.message == "Could not ask for the version: Unauthorized."
        assert len(server.requests) <= 2


async def test_an_expired_client_certificate_is_reported_in_words(tmp_path: Path) -> None:
    _, expired = make_certificate(tmp_path, days=-1)
    user = User(client_certificate=str(expired), client_key=str(tmp_path / "pair.pem"))
    async with ApiServer() as server, server.client(user) as client:
        server.tokens = set()
        day = datetime.now(UTC) - timedelta(days=1)
        with pytest.raises(NotLoggedIn, match=rf'certificate of user "anna" expired on {day:%Y-%m-%d} \d\d:\d\d UTC'):
            await client.request("GET", "/version", action="ask")


async def test_certificates_are_loaded_and_broken_ones_named(tmp_path: Path) -> None:
    make_certificate(tmp_path, days=1)
    pair = base64.b64encode((tmp_path / "pair.pem").read_bytes()).decode()
    assert await login(User(client_certificate_data=pair, client_key_data=pair)).tls() is not None
    text = (tmp_path / "pair.pem").read_text().strip()  # without a line end, as some plugins print it
    asked = login(User(exec=giving(tmp_path, clientCertificateData=text, clientKeyData=text)))
    await asked.headers()
    assert await asked.tls() is not None
    with pytest.raises(BadKubeconfig, match="is not valid base64"):
        await login(User(), certificate_authority_data="???!").tls()
    for cut in (b"no certificate", b"-----BEGIN CERTIFICATE-----\n"):
        data = base64.b64encode(cut).decode()
        with pytest.raises(BadKubeconfig, match='authority of context "ctx" is no certificate'):
            await login(User(), certificate_authority_data=data).tls()
        with pytest.raises(BadKubeconfig, match="is no certificate"):
            await login(User(), certificate_authority_data=data).certificates()


async def test_the_removed_provider_of_gke_names_what_came_after_it() -> None:
    provider = {"name": "gcp", "config": {"cmd-path": "/nonexistent/gcloud", "expiry": "2023-01-01T00:00:00Z"}}
    with pytest.raises(NotLoggedIn, match='auth provider "gcp", which Kubernetes has removed') as caught:
        await login(User(auth_provider=provider)).headers()
    assert "gke-gcloud-auth-plugin" in caught.value.hint


async def test_a_login_shows_no_secret() -> None:
    found = login(User(token="hunter2"))
    await found.headers()
    for shown in (found, found.target, found.target.user, await found.headers()):
        assert "hunter2" not in repr(shown)
        assert "hunt" not in pretty_repr(shown, max_string=12)


@pytest.mark.parametrize(
    ("server", "here"),
    [
        ("https://127.0.0.1:6443", True),
        ("http://localhost", True),
        ("https://[::1]:1", True),
        ("https://34.1.2.3", False),
        ("https://gke.example", False),
    ],
)
def test_what_is_on_this_machine(server: str, here: bool) -> None:
    assert Login(Target("x", "u", "d", Cluster(server=server), User())).loopback is here
