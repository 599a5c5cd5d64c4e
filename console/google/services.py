"""Google's services: which a project has enabled, and enabling one; the only importer of google.cloud.service_usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud import service_usage_v1 as api

from console.google.failures import within

if TYPE_CHECKING:
    from collections.abc import Collection

    from console.google.reach import Reach

PATIENCE = 30.0
ENABLING = 300.0
"""Seconds that enabling a service may take."""
_AT_ONCE = 30
"""Services that Google tells of in one answer."""


async def enabled(reach: Reach, project: str, services: Collection[str]) -> frozenset[str]:
    """Which of these services ("container.googleapis.com") the project has enabled."""
    client = reach.client(api.ServiceUsageAsyncClient)
    names = [f"projects/{project}/services/{each}" for each in services]
    found: set[str] = set()
    async with within(f"see which services {project} has enabled", PATIENCE):
        for start in range(0, len(names), _AT_ONCE):
            request = api.BatchGetServicesRequest(parent=f"projects/{project}", names=names[start : start + _AT_ONCE])
            answer = await client.batch_get_services(request, timeout=PATIENCE)
            found |= {each.config.name for each in answer.services if each.state == api.State.ENABLED}
    return frozenset(found)


async def enable(reach: Reach, project: str, service: str) -> None:
    """Enable a service and wait until it is; Unreachable if that takes longer than five minutes."""
    client = reach.client(api.ServiceUsageAsyncClient)
    request = api.EnableServiceRequest(name=f"projects/{project}/services/{service}")
    doing = f"enable {service} in {project}"
    async with within(doing, ENABLING):
        begun: Any = await client.enable_service(request, timeout=PATIENCE)
        await begun.result(timeout=ENABLING)
