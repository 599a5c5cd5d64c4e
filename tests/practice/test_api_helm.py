"""Helm itself against the practice API server: the life of a release."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import helm_python
import pytest

from tests.practice.api_client import MAPS, serving

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-map"}
data:
  size: "{{ .Values.size }}"
  {{- if .Values.extra }}
  extra: "yes"
  {{- end }}
---
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-secret"}
stringData: {key: value}
"""


def chart(folder: Path) -> Path:
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("size: 1\nextra: true\n")
    (folder / "templates" / "all.yaml").write_text(TEMPLATE)
    return folder


async def test_a_release_from_dry_run_to_uninstall(tmp_path: Path) -> None:
    small = chart(tmp_path / "chart")
    async with serving(tmp_path) as api:
        helm = helm_python.Config(kubeconfig_path=tmp_path / "kubeconfig", namespace="default")
        await asyncio.to_thread(helm.install, small, "one", {}, dry_run="server")
        assert (await api.get(f"{MAPS}/one-map")).status == 404
        await asyncio.to_thread(helm.install, small, "one", {})
        assert (await api.get(f"{MAPS}/one-map")).body["data"] == {"size": "1", "extra": "yes"}
        with pytest.raises(helm_python.HelmReleaseError, match="cannot reuse a name"):
            await asyncio.to_thread(helm.install, small, "one", {})
        await asyncio.to_thread(helm.upgrade, small, "one", {"size": 2, "extra": False})
        assert (await api.get(f"{MAPS}/one-map")).body["data"] == {"size": "2"}
        assert [release["name"] for release in await asyncio.to_thread(helm.list)] == ["one"]
        await asyncio.to_thread(helm.uninstall, "one")
        assert (await api.get(MAPS)).body["items"] == []
        assert (await api.get("/api/v1/namespaces/default/secrets")).body["items"] == []
        helm.close()
