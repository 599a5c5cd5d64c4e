"""Projects and their services: cloudresourcemanager v3 and serviceusage v1, as far as the console asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from google.cloud import resourcemanager_v3 as manager
from google.cloud import service_usage_v1 as usage
from google.iam.v1.iam_policy_pb2 import GetIamPolicyRequest, TestIamPermissionsRequest, TestIamPermissionsResponse
from google.iam.v1.policy_pb2 import Binding, Policy

from practice.google.cloud import missing
from practice.google.longrunning import told
from practice.google.serving import Method, RefusalError

if TYPE_CHECKING:
    from google.longrunning.operations_pb2 import Operation

    from practice.google.cloud import PracticeGoogle, PracticeProject

_ENABLING = 20.0  # practice seconds that enabling a service takes


def methods(world: PracticeGoogle) -> dict[str, Method]:
    async def search(request: manager.SearchProjectsRequest) -> manager.SearchProjectsResponse:
        found = [
            manager.Project(
                name=f"projects/{each.number}", project_id=each.id, display_name=each.name,
                state=manager.Project.State.ACTIVE,
            )
            for each in world.projects.values()
        ]  # fmt: skip
        page, token = world.paged(found, request.page_size, request.page_token)
        return manager.SearchProjectsResponse(projects=page, next_page_token=token)

    async def services(request: usage.ListServicesRequest) -> usage.ListServicesResponse:
        project = world.admit(request.parent.removeprefix("projects/"), "")
        page, token = world.paged(sorted(project.enabled), request.page_size, request.page_token)
        return usage.ListServicesResponse(services=[_service(project, each) for each in page], next_page_token=token)

    async def service(request: usage.GetServiceRequest) -> usage.Service:
        project, name = _split(world, request.name)
        return _service(project, name)

    async def batch(request: usage.BatchGetServicesRequest) -> usage.BatchGetServicesResponse:
        found = [_service(*_split(world, name)) for name in request.names]
        return usage.BatchGetServicesResponse(services=found)

    async def enable(request: usage.EnableServiceRequest) -> Operation:
        project, name = _split(world, request.name)

        def enabled() -> usage.EnableServiceResponse:
            project.enabled.add(name)
            return usage.EnableServiceResponse(service=_service(project, name))

        return told(world.work("ENABLE_SERVICE", "", _ENABLING, enabled, usage.OperationMetadata()))

    async def held(request: TestIamPermissionsRequest) -> TestIamPermissionsResponse:
        project = world.admit(request.resource.removeprefix("projects/"), "")
        return TestIamPermissionsResponse(
            permissions=[each for each in request.permissions if each not in project.lacking]
        )

    async def one(request: manager.GetProjectRequest) -> manager.Project:
        found = world.admit(request.name.removeprefix("projects/"), "")
        return manager.Project(name=f"projects/{found.number}", project_id=found.id, display_name=found.name)

    async def policy(request: GetIamPolicyRequest) -> Policy:
        project = world.admit(request.resource.removeprefix("projects/"), "")
        _allowed(project, "resourcemanager.projects.getIamPolicy")
        return Policy(bindings=[Binding(role=role, members=names) for role, names in project.bindings.items()])

    spoken = "/google.api.serviceusage.v1.ServiceUsage"
    return {
        "/google.cloud.resourcemanager.v3.Projects/SearchProjects": Method(manager.SearchProjectsRequest, search),
        "/google.cloud.resourcemanager.v3.Projects/GetProject": Method(manager.GetProjectRequest, one),
        "/google.cloud.resourcemanager.v3.Projects/GetIamPolicy": Method(GetIamPolicyRequest, policy),
        "/google.cloud.resourcemanager.v3.Projects/TestIamPermissions": Method(TestIamPermissionsRequest, held),
        f"{spoken}/ListServices": Method(usage.ListServicesRequest, services),
        f"{spoken}/GetService": Method(usage.GetServiceRequest, service),
        f"{spoken}/BatchGetServices": Method(usage.BatchGetServicesRequest, batch),
        f"{spoken}/EnableService": Method(usage.EnableServiceRequest, enable),
    }


def _allowed(project: PracticeProject, permission: str) -> None:
    if permission in project.lacking:
        words = f"Permission '{permission}' denied on resource project {project.id}"
        raise RefusalError(grpc.StatusCode.PERMISSION_DENIED, words)


def _split(world: PracticeGoogle, name: str) -> tuple[PracticeProject, str]:
    parts = name.split("/")
    if len(parts) != 4 or not parts[3].endswith(".googleapis.com"):  # projects/P/services/S
        raise missing(name)
    return world.admit(parts[1], ""), parts[3]


def _service(project: PracticeProject, name: str) -> usage.Service:
    state = usage.State.ENABLED if name in project.enabled else usage.State.DISABLED
    return usage.Service(name=f"projects/{project.number}/services/{name}", parent=f"projects/{project.number}",
                         config=usage.ServiceConfig(name=name), state=state)  # fmt: skip
