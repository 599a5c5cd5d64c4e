"""Reads the kubeconfigs of a case of client-go as we do, and says where what comes of them differs."""

from __future__ import annotations

import os.path
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from console.errors import BadKubeconfig
from console.kube.kubeconfig import Kubeconfig

_CLUSTER = {"server": "server", "certificateAuthority": "certificate_authority",
            "insecureSkipTLSVerify": "insecure_skip_tls_verify", "tLSServerName": "tls_server_name",
            "proxyURL": "proxy_url"}  # fmt: skip
_USER = {"clientCertificate": "client_certificate", "clientKey": "client_key", "token": "token",
         "tokenFile": "token_file", "username": "username", "password": "password"}  # fmt: skip
_CONTEXT = {"cluster": "cluster", "authInfo": "user", "namespace": "namespace"}


def difference(case: dict[str, Any]) -> str:
    """Empty if the same contexts, clusters and users come of the files, or both refuse them."""
    row = case["case"]
    with tempfile.TemporaryDirectory() as place:
        found = Kubeconfig()
        try:
            for file in row["files"]:
                if file["there"]:
                    path = Path(place + file["path"])  # as deep as it was: paths within it may lead upwards
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(file["text"])
                    found.merge(path)
        except BadKubeconfig as error:
            return "" if row["failed"] else f"refused here ({error}), client-go takes it"
    if row["failed"]:
        return "" if row["explicit"] and not row["files"][0]["there"] else "taken here, client-go refuses it"
    want = row["config"]
    pairs: list[tuple[str, object, object]] = [("current context", want["currentContext"], found.current)]
    for kind, listed, ours, names in (
        ("context", want["contexts"], found.contexts, _CONTEXT),
        ("cluster", want["clusters"], found.clusters, _CLUSTER),
        ("user", want["authInfos"], found.users, _USER),
    ):
        pairs.append((f"{kind}s", sorted(listed or {}), sorted(ours)))
        pairs += [(f"{kind} {name}", _wanted(each, names), _found(ours[name], names, place))
                  for name, each in (listed or {}).items() if name in ours]  # fmt: skip
    return "; ".join(f"{what}: {wanted} wanted, {got} here" for what, wanted, got in pairs if wanted != got)


def _wanted(entry: dict[str, Any], names: dict[str, str]) -> dict[str, object]:
    return {names[key]: value for key, value in entry.items() if key in names and value}


def _found(entry: Struct, names: dict[str, str], place: str) -> dict[str, object]:
    values = {key: getattr(entry, key) for key in names.values() if getattr(entry, key)}
    return {
        key: os.path.normpath(value).removeprefix(place) if str(value).startswith("/") else value
        for key, value in values.items()
    }
