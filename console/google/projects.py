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


async def permissions(reach: Reach, project: str, wanted: Sequence[str]) -> frozenset[str]:
    """Which of these permissions ("cloudbuild.builds.create") the login has in a project."""
    client = reach.client(api.ProjectsAsyncClient)
    request = {"resource": f"projects/{project}", "permissions": list(wanted)}
    async with within(f"see what the login may do in {project}", PATIENCE):
        answer = await client.test_iam_permissions(request=request, timeout=PATIENCE)
    return frozenset(answer.permissions)
