"""Plays cases of client-go with our kubeconfigs and credential plugins, and says where what comes of them differs."""

import asyncio
import base64
import json
import os
import os.path
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec import Struct

from console.errors import BadKubeconfig, ConsoleError, NotLoggedIn
from console.kube.kubeconfig import Cluster, Context, Kubeconfig, Target, User, load
from console.kube.login import Login, run_credential_plugin
from tests.certificates import make_certificate

Case = dict[str, Any]
_CLUSTER = {"server": "server", "certificateAuthority": "certificate_authority",
            "certificateAuthorityData": "certificate_authority_data",
            "insecureSkipTLSVerify": "insecure_skip_tls_verify", "tLSServerName": "tls_server_name",
            "proxyURL": "proxy_url"}  # fmt: skip
_USER = {"clientCertificate": "client_certificate", "clientCertificateData": "client_certificate_data",
         "clientKey": "client_key", "clientKeyData": "client_key_data", "token": "token", "tokenFile": "token_file",
         "username": "username", "password": "password", "impersonate": "impersonate", "impersonateUID": "as_uid",
         "impersonateGroups": "as_groups", "impersonateUserExtra": "as_user_extra", "exec": "exec",
         "authProvider": "auth_provider"}  # fmt: skip
_CONTEXT = {"cluster": "cluster", "authInfo": "user", "namespace": "namespace"}
_EXEC = {"aPIVersion": "apiVersion", "command": "command", "args": "args", "env": "env", "installHint": "installHint",
         "provideClusterInfo": "provideClusterInfo", "interactiveMode": "interactiveMode"}  # fmt: skip
_EMPTY = "no configuration has been provided"  # so begins its error
_PLUGIN = '#!/bin/sh\nprintf %s "$KUBERNETES_EXEC_INFO" >"$0.asked"\nprintf %s "$TEST_OUTPUT"\nexit "$TEST_EXIT_CODE"\n'


def difference(case: Case) -> str:
    """Empty if ours comes to the same, or refuses what client-go refuses."""
    with tempfile.TemporaryDirectory() as place:
        return _RUNNERS[case["suite"]](case, Path(place))


def _load(case: Case, place: Path) -> str:
    """The same contexts, clusters and users come of the files."""
    row, (want, failed) = case["case"], case["answer"]
    found = Kubeconfig()
    try:
        for file in row["files"]:
            if file["there"]:
                path = Path(f"{place}{file['path']}")  # as deep as it was: paths within it may lead upwards
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(file["text"])
                found.merge(path)
    except BadKubeconfig as error:
        return "" if failed else f"refused here ({error}), client-go takes it"
    if failed:
        missing = row["rules"]["explicitPath"] and not row["files"][0]["there"]
        return "" if missing else "taken here, client-go refuses it"
    pairs: list[tuple[str, object, object]] = [("current context", want["currentContext"], found.current)]
    for kind, listed, ours, names in (
        ("context", want["contexts"], found.contexts, _CONTEXT),
        ("cluster", want["clusters"], found.clusters, _CLUSTER),
        ("user", want["authInfos"], found.users, _USER),
    ):
        pairs.append((f"{kind}s", sorted(listed or {}), sorted(ours)))
        pairs += [(f"{kind} {name}", _ours(each, names), _found(ours[name], names, place))
                  for name, each in (listed or {}).items() if name in ours]  # fmt: skip
    return _differing(pairs)


def _differing(pairs: list[tuple[str, object, object]]) -> str:
    return "; ".join(f"{what}: {wanted} wanted, {got} here" for what, wanted, got in pairs if wanted != got)


def _ours(entry: Case, names: dict[str, str]) -> Case:
    """An entry of client-go's by our names, without what is not set."""
    values = {names[key]: value for key, value in entry.items() if key in names and value}
    for key, value in values.items():
        if key.endswith("_data"):
            values[key] = base64.b64encode(bytes(value)).decode()
        elif key == "exec":
            values[key] = _plugin_spec({_EXEC[name]: each for name, each in value.items() if name in _EXEC})
    return values


def _plugin_spec(spec: Case) -> Case:
    """What a plugin is told, without what is not set or is what it is if it is not set."""
    return {name: value for name, value in spec.items() if value and value != "IfAvailable"}


def _found(entry: Struct, names: dict[str, str], place: Path) -> Case:
    values = {key: getattr(entry, key) for key in names.values() if getattr(entry, key)}
    if "exec" in values:
        command = str(values["exec"]["command"])
        values["exec"] = _plugin_spec(values["exec"] | {"command": os.path.normpath(command).removeprefix(str(place))})
    return {
        key: os.path.normpath(value).removeprefix(str(place)) if str(value).startswith("/") else value
        for key, value in values.items()
    }


def _kubeconfig(config: Case) -> Kubeconfig:
    found = Kubeconfig()
    found.current = config["currentContext"]
    found.clusters = {name: Cluster(**_ours(each, _CLUSTER)) for name, each in (config["clusters"] or {}).items()}
    found.users = {name: User(**_ours(each, _USER)) for name, each in (config["authInfos"] or {}).items()}
    found.contexts = {name: Context(**_ours(each, _CONTEXT)) for name, each in (config["contexts"] or {}).items()}
    return found


@cache
def _pem() -> str:
    with tempfile.TemporaryDirectory() as place:
        make_certificate(Path(place), days=9)
        return (Path(place) / "pair.pem").read_text()


def _refusal(found: Kubeconfig, name: str, place: Path) -> str:
    """Why we do not use a context. Certificates of the cases are made up: what there is of them is a true one."""
    pem = place / "pem"
    pem.write_text(_pem())

    async def use() -> None:
        target = found.target(name)
        if "://" not in target.cluster.server:
            target.cluster.server = f"https://{target.cluster.server}"
        for entry in (target.cluster, target.user):
            for key in entry.__struct_fields__:
                if key.endswith("_data") and getattr(entry, key):
                    setattr(entry, key, base64.b64encode(pem.read_bytes()).decode())
                elif str(getattr(entry, key)).startswith("/"):
                    setattr(entry, key, str(pem))
        login = Login(target)
        assert isinstance(login.proxy, str)
        await login.tls()
        if target.user.exec:
            await run_credential_plugin(target.user.exec, target.cluster)

    try:
        asyncio.run(use())
    except ConsoleError as error:
        return "" if "is not installed" in str(error) else str(error)  # nothing of theirs is
    return ""


def _either(refused: str, wanted: object) -> str:
    if bool(refused) == bool(wanted):
        return ""
    return f"refused here ({refused}), client-go takes it" if refused else f"taken here, client-go says {wanted}"


def _usable(case: Case, place: Path) -> str:
    row, wanted = case["case"], case["answer"][0]
    found = _kubeconfig(row["config"]) if "config" in row else Kubeconfig()
    name = row.get("passedContextName", row.get("contextName", "x"))
    if case["suite"] == "validateContext":
        found.clusters = {each: Cluster(server="https://x") for each in found.clusters}
    elif "config" not in row:
        found.contexts["x"] = Context("x", "x")
        found.clusters["x"] = Cluster(**_ours(row.get("clusterInfo", {"server": "https://x"}), _CLUSTER))
        found.users["x"] = User(**_ours(row.get("authInfo", {}), _USER))
    return _either(_refusal(found, name, place), wanted)


def _client(case: Case, place: Path) -> str:
    """The server, and as whom it is asked."""
    row, (want, failed) = case["case"]["config"], case["answer"]
    found, name = _kubeconfig(row["config"]), row["overrides"]["currentContext"] or row["contextName"]
    if given := [part for part in ("authInfo", "clusterInfo") if _ours(row["overrides"][part], _CLUSTER | _USER)]:
        return f"overridden: {given}"
    if (refused := _refusal(_kubeconfig(row["config"]), name, place)) or failed:
        return _either(refused, failed)
    target, tls, acts = found.target(name), want["tLSClientConfig"], want["impersonate"]
    # Over plain HTTP neither of us sends one; a file is read again, so it goes before a token that stays.
    safe = target.cluster.server.startswith("https:")
    token = (target.user.token_file or target.user.token or "") if safe else ""
    return _differing([
        ("server", want["host"], target.cluster.server),
        ("token", want["bearerTokenFile"] or want["bearerToken"], token),
        ("basic", (want["username"], want["password"]), (target.user.username or "", target.user.password or "")),
        ("insecure", tls["insecure"], bool(target.cluster.insecure_skip_tls_verify)),
        ("name", tls["serverName"], target.cluster.tls_server_name or ""),
        *((key, base64.b64encode(bytes(tls[theirs] or ())).decode(), ours or "") for key, theirs, ours in (
            ("authority", "cAData", target.cluster.certificate_authority_data),
            ("certificate", "certData", target.user.client_certificate_data),
            ("key", "keyData", target.user.client_key_data),
        )),
        ("as", acts["userName"], target.user.impersonate or ""),
    ])  # fmt: skip


def _namespace(case: Case, place: Path) -> str:
    row = case["case"]["config"]
    if given := row["overrides"]["context"]["namespace"]:
        return _differing([("namespace", case["answer"][0], given)])  # that of -n goes before all others
    return _differing(
        [("namespace", case["answer"][0], _kubeconfig(row["config"]).target(row["contextName"]).namespace)]
    )


def _in_cluster(case: Case, place: Path) -> str:
    """A kubeconfig or the account of the pod, whichever there is of what the case has."""
    row, (want, icc) = case["case"], (case["case"]["clientConfig"], case["case"]["icc"])
    account, path = place / "account", place / "config"
    account.mkdir()
    host = ((icc["testClientConfig"]["config"] or {}).get("host")) or "config2"
    variables = {"KUBECONFIG": str(path)} | ({"KUBERNETES_SERVICE_HOST": host} if icc["possible"] else {})
    if icc["possible"] and not icc["testClientConfig"]["err"]:
        (account / "token").write_text("t")
        (account / "namespace").write_text(icc["testClientConfig"]["namespace"])
    if not str(want["err"] or "").startswith(_EMPTY):
        server = "" if want["err"] else (want["config"] or {}).get("host") or "x"
        path.write_text(
            f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\ncurrent-context: c\n"
            f"contexts: [{{name: c, context: {{cluster: c, namespace: '{want['namespace']}'}}}}]\n"
        )
    with mock.patch.dict(os.environ, variables):
        try:
            target = load(service_account=account).target()
        except BadKubeconfig as error:
            return _either(str(error), row["err"])
    if row["err"]:
        return f"taken here, client-go says {row['err']}"
    if case["suite"] == "TestInClusterConfigNamespace":
        return _differing([("namespace", row["result"] or "default", target.namespace)])
    return _differing(
        [
            (
                "server",
                row["result"]["host"].removeprefix("https://"),
                target.cluster.server.removeprefix("https://").split(":443")[0],
            )
        ]
    )


def _credentials(case: Case, place: Path) -> str:
    """What a plugin is told, and what is made of its answer."""
    row, plugin = case["case"], place / "plugin"
    plugin.write_text(_PLUGIN)
    plugin.chmod(0o700)
    more = [{"name": "TEST_OUTPUT", "value": row["output"]}, {"name": "TEST_EXIT_CODE", "value": str(row["exitCode"])}]
    spec = {"command": str(plugin), "env": more} | _ours({"exec": row["config"]}, _USER)["exec"]
    given = row["cluster"] or {}
    asked = [{"name": "client.authentication.k8s.io/exec", "extension": given.get("config")}]
    cluster = Cluster(**_ours(given, _CLUSTER), extensions=asked)

    async def ask() -> tuple[str, bool, float]:
        found = await run_credential_plugin(spec, cluster)
        if found.certificate:  # it has to be one
            login = Login(Target("x", "x", "", Cluster(server="https://x"), User(exec=spec)))
            await login.headers()
            await login.tls()
        return found.authorization.removeprefix("Bearer "), bool(found.certificate), found.expires_at

    try:
        token, certificate, expires = asyncio.run(ask())
    except (NotLoggedIn, BadKubeconfig) as error:
        return _either(str(error), row["wantErr"])
    if row["wantErr"]:
        return f"taken here, client-go refuses it: {row['wantErrSubstr']}"
    creds, asked = row["wantCreds"], json.loads(Path(f"{plugin}.asked").read_text())
    return _differing([
        ("token", creds["token"], token),
        ("certificate", bool(creds["cert"]), certificate),
        ("end", not row["wantExpiry"].startswith("0001"), expires > 0),
        ("question", json.loads(row["wantInput"]), asked),
    ])  # fmt: skip


_RUNNERS: dict[str, Callable[[Case, Path], str]] = {
    "Load": _load, "ConfirmUsable": _usable, "validateContext": _usable, "validateAuthInfo": _usable,
    "validateClusterInfo": _usable, "ClientConfig": _client, "Namespace": _namespace,
    "TestInClusterConfig": _in_cluster, "TestInClusterConfigNamespace": _in_cluster, "TestRefreshCreds": _credentials,
}  # fmt: skip
