"""Kubeconfigs that let nobody in: one sentence and the next step, and nothing else on either output."""

import asyncio
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from screens.cli.command_line import parse_command_line
from screens.cli.open_session import open_session
from tests.apiserver import ApiServer
from tests.kubeconfigs import write_kubeconfig

V1 = "client.authentication.k8s.io/v1"
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").decode()
OTHER = json.dumps({"apiVersion": f"{V1}beta1", "kind": "ExecCredential", "status": {"token": "t0"}})
GCP = {"auth-provider": {"name": "gcp", "config": {"cmd-path": "{bin}/false", "cmd-args": "x"}}}
# what the cluster has besides, the user, a program that runs as plugin, the exit code, words of the sentence and hint
FAULTS: dict[str, tuple[dict[str, str], dict[str, Any], str, int, str, str]] = {
    "the provider of before 1.26": ({}, GCP, "", 3, 'provider "gcp", which Kubernetes has removed', "gke-gcloud-auth"),
    "a cut off authority": (
        {"certificate-authority-data": PEM[:20]}, {"token": "t0"}, "", 2, "is no certificate: it is cut off", "Write",
    ),
    "another name": (
        {"tls-server-name": "kubernetes.default"}, {"token": "t0"}, "", 4, "certificate is not for kubernetes.default",
        "tls-server-name",
    ),
    "a plugin that hangs": ({}, {}, "exec sleep 300", 3, "/plugin has not answered for 10 s", "Run it by hand"),
    "a plugin of another version": ({}, {}, f"echo '{OTHER}'", 3, "/plugin speaks " + V1 + "beta1; the", "Run it by"),
    "a certificate without its key": (
        {}, {"client-certificate-data": PEM}, "", 2, 'User "u" has a client certificate without its key', "Write",
    ),
}  # fmt: skip
COMMANDS = ("jobs", "jobs --json", "why train --json", "nodes -A --json")


@pytest.mark.slow(reason="four commands as programs, one of them after another")
@pytest.mark.parametrize("fault", FAULTS)
async def test_each_is_one_sentence_and_the_next_step_whatever_was_asked(fault: str, tmp_path: Path) -> None:
    more, user, script, code, sentence, hint = FAULTS[fault]
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(0o755)
    async with ApiServer(secure=True) as server:
        authority = server.target().cluster.certificate_authority_data
        cluster = {"server": server.url, "certificate-authority-data": authority, **more}
        login = user or {"exec": {"apiVersion": V1, "command": str(plugin), "interactiveMode": "Never"}}
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", cluster, login)
        for command in COMMANDS if "hangs" not in fault else COMMANDS[:2]:
            first, *words = command.split()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "screens", first, "--kubeconfig", str(kubeconfig), *words,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env=os.environ | {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")},
            )  # fmt: skip
            out, errors = await process.communicate()
            (line,) = errors.decode().splitlines()
            message = " ".join(json.loads(line).values()) if "--json" in words else line
            assert (process.returncode, out) == (code, b""), line
            assert sentence in message
            assert hint in message


async def test_nothing_is_imported_ahead_once_a_command_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would find the threads gone, and its traceback stood beside the command's own sentence."""
    monkeypatch.setattr("screens.cli.open_session.FIRST_REQUEST_SECONDS", 0)
    imported: list[str] = []
    async with ApiServer() as server:
        place = write_kubeconfig(tmp_path / "kubeconfig", {"server": server.url}, {})
        options = parse_command_line(["jobs", "--kubeconfig", str(place)])
        async with open_session(options, (), ahead=lambda: imported.append("columns")):
            pass
        await asyncio.to_thread(lambda: None)
    assert not imported
