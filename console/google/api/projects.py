"""Projects and their enabled services; the only importer of google.cloud.{resourcemanager,service_usage}."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Any

from google.cloud import resourcemanager_v3 as api, service_usage_v1 as services_api

from console.google.api import members_by_role
from console.google.api.calls import GoogleSession, list_all, translate_errors_within
from console.google.clusters import Project

PROJECTS_TIMEOUT = 30.0


async def search_projects(session: GoogleSession) -> AsyncGenerator[Project, None]:
    """Yield projects visible to the login."""
    client = session.client(api.ProjectsAsyncClient)
    request = api.SearchProjectsRequest(query="state:ACTIVE")
    for each in await list_all(
        "list the projects", client.search_projects(request, timeout=PROJECTS_TIMEOUT), lambda each: each
    ):
        yield Project(each.project_id, each.display_name, each.name.rpartition("/")[2])


async def read_number(session: GoogleSession, project: str) -> str:
    client = session.client(api.ProjectsAsyncClient)
    async with translate_errors_within(f"read project {project}", PROJECTS_TIMEOUT):
        found = await client.get_project(name=f"projects/{project}", timeout=PROJECTS_TIMEOUT)
    return found.name.rpartition("/")[2]


async def read_role_members(session: GoogleSession, project: str) -> dict[str, frozenset[str]]:
    """The IAM policy of a project: role -> members; roles inherited from folders are not included."""
    client = session.client(api.ProjectsAsyncClient)
    async with translate_errors_within(f"read the IAM policy of {project}", PROJECTS_TIMEOUT):
        policy = await client.get_iam_policy(resource=f"projects/{project}", timeout=PROJECTS_TIMEOUT)
    return members_by_role((each.role, each.members) for each in policy.bindings)


async def granted_permissions(session: GoogleSession, project: str, permissions: Sequence[str]) -> frozenset[str]:
    """Those of the listed permissions (such as "cloudbuild.builds.create") that the login has in a project."""
    client = session.client(api.ProjectsAsyncClient)
    request = {"resource": f"projects/{project}", "permissions": list(permissions)}
    async with translate_errors_within(f"test the permissions of the login in {project}", PROJECTS_TIMEOUT):
        answer = await client.test_iam_permissions(request=request, timeout=PROJECTS_TIMEOUT)
    return frozenset(answer.permissions)


ENABLE_TIMEOUT = 300.0  # seconds that enabling a service may take
_SERVICES_PER_REQUEST = 30  # services that Google tells of in one answer


async def enabled_services(session: GoogleSession, project: str, services: Collection[str]) -> frozenset[str]:
    """Those of the listed services (such as "container.googleapis.com") that are enabled in the project."""
    client = session.client(services_api.ServiceUsageAsyncClient)
    names = [f"projects/{project}/services/{each}" for each in services]
    found: set[str] = set()
    async with translate_errors_within(f"list the enabled services of {project}", PROJECTS_TIMEOUT):
        for start in range(0, len(names), _SERVICES_PER_REQUEST):
            request = services_api.BatchGetServicesRequest(
                parent=f"projects/{project}", names=names[start : start + _SERVICES_PER_REQUEST]
            )
            answer = await client.batch_get_services(request, timeout=PROJECTS_TIMEOUT)
            found |= {each.config.name for each in answer.services if each.state == services_api.State.ENABLED}
    return frozenset(found)


async def enable_service(session: GoogleSession, project: str, service: str) -> None:
    """Enable a service and wait. Raises Unreachable if that takes over five minutes."""
    client = session.client(services_api.ServiceUsageAsyncClient)
    request = services_api.EnableServiceRequest(name=f"projects/{project}/services/{service}")
    doing = f"enable {service} in {project}"
    async with translate_errors_within(doing, ENABLE_TIMEOUT):
        begun: Any = await client.enable_service(request, timeout=PROJECTS_TIMEOUT)
        await begun.result(timeout=ENABLE_TIMEOUT)
