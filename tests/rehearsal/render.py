"""Render launches with the chart, launchers and console of the tree that PYTHONPATH names: a JSON list in, one out.

For each launch the manifests, or the sentence by which it was refused. It runs in a process of its own, so that the
tree of another commit can be rendered too.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import yaml

from console.kube.client import Client
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from console.launch.helm import Helm
from console.launch.install import ChartCatalog, Launcher
from console.launch.recipes import LaunchPlan


async def rendered(launches: list[dict[str, Any]]) -> list[Any]:
    nowhere = Target("none", "none", "default", Cluster(server="https://127.0.0.1:9"), User())
    launcher = Launcher(ChartCatalog.from_chart(), Helm(), Client(Login(nowhere)))
    found: list[Any] = []
    for launch in launches:
        try:
            name, _, namespace = launch["release"].partition(".")
            manifests = await launcher.render(LaunchPlan(launch["recipe"], name, namespace, launch["values"]))
        except Exception as refusal:  # noqa: BLE001  the tree of another commit has refusals of its own
            found.append(str(refusal))
        else:
            found.append([yaml.safe_load(manifest.text) for manifest in manifests])
    return found


if __name__ == "__main__":
    json.dump(asyncio.run(rendered(json.load(sys.stdin))), sys.stdout)
