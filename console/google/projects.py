"""Google Cloud projects; the only importer of google.cloud.resourcemanager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.cloud import resourcemanager_v3 as api

from console.google.failures import told, within
from console.models.gke import Project

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from console.google.reach import Reach

PATIENCE = 30.0


async def projects(reach: Reach, query: str = "") -> AsyncGenerator[Project, None]:
    """Projects that the login may see, page after page as they come; `query` is Google's, "id:train*"."""
    client = reach.client(api.ProjectsAsyncClient)
    request = api.SearchProjectsRequest(query=query or "state:ACTIVE")
    with told("list the projects"):
        async for each in await client.search_projects(request, timeout=PATIENCE):
            yield Project(each.project_id, each.display_name, each.name.rpartition("/")[2])


async def number(reach: Reach, project: str) -> str:
    """A project's number; NotFound, NotAllowed."""
    client = reach.client(api.ProjectsAsyncClient)
    async with within(f"look at project {project}", PATIENCE):
        found = await client.get_project(name=f"projects/{project}", timeout=PATIENCE)
    return found.name.rpartition("/")[2]


async def members(reach: Reach, project: str) -> dict[str, frozenset[str]]:
    """Who may do what in a project, by its policy: role -> members. What folders above it give is not in it."""
    client = reach.client(api.ProjectsAsyncClient)
    async with within(f"see who may do what in {project}", PATIENCE):
        policy = await client.get_iam_policy(resource=f"projects/{project}", timeout=PATIENCE)
    found: dict[str, set[str]] = {}
    for each in policy.bindings:
        found.setdefault(each.role, set()).update(each.members)
    return {role: frozenset(names) for role, names in found.items()}


async def permissions(reach: Reach, project: str, wanted: Sequence[str]) -> frozenset[str]:
    """Which of these permissions ("cloudbuild.builds.create") the login has in a project."""
    client = reach.client(api.ProjectsAsyncClient)
    request = {"resource": f"projects/{project}", "permissions": list(wanted)}
    async with within(f"see what the login may do in {project}", PATIENCE):
        answer = await client.test_iam_permissions(request=request, timeout=PATIENCE)
    return frozenset(answer.permissions)
