"""Projects and their services: cloudresourcemanager v3 and serviceusage v1, as far as the console asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from google.cloud import resourcemanager_v3 as manager, service_usage_v1 as usage
from google.iam.v1.iam_policy_pb2 import GetIamPolicyRequest, TestIamPermissionsRequest, TestIamPermissionsResponse
from google.iam.v1.policy_pb2 import Binding, Policy

from practice.google.cloud import not_found_error
from practice.google.longrunning import operation_message
from practice.google.serving import Method, RefusalError

if TYPE_CHECKING:
    from google.longrunning.operations_pb2 import Operation

    from practice.google.cloud import PracticeGoogle, PracticeProject

_ENABLING = 20.0  # practice seconds that enabling a service takes


def grpc_methods(google: PracticeGoogle) -> dict[str, Method]:
    async def search_projects(request: manager.SearchProjectsRequest) -> manager.SearchProjectsResponse:
        found = [
            manager.Project(
                name=f"projects/{each.number}",
                project_id=each.id,
                display_name=each.name,
                state=manager.Project.State.ACTIVE,
            )
            for each in google.projects.values()
        ]
        page, token = google.paginate(found, request.page_size, request.page_token)
        return manager.SearchProjectsResponse(projects=page, next_page_token=token)

    async def list_services(request: usage.ListServicesRequest) -> usage.ListServicesResponse:
        project = google.require_service(request.parent.removeprefix("projects/"), "")
        page, token = google.paginate(sorted(project.enabled), request.page_size, request.page_token)
        return usage.ListServicesResponse(
            services=[_service_message(project, each) for each in page], next_page_token=token
        )

    async def get_service(request: usage.GetServiceRequest) -> usage.Service:
        project, name = _split_service_name(google, request.name)
        return _service_message(project, name)

    async def batch_get_services(request: usage.BatchGetServicesRequest) -> usage.BatchGetServicesResponse:
        found = [_service_message(*_split_service_name(google, name)) for name in request.names]
        return usage.BatchGetServicesResponse(services=found)

    async def enable_service(request: usage.EnableServiceRequest) -> Operation:
        project, name = _split_service_name(google, request.name)

        def enabled() -> usage.EnableServiceResponse:
            project.enabled.add(name)
            return usage.EnableServiceResponse(service=_service_message(project, name))

        return operation_message(
            google.start_operation("ENABLE_SERVICE", "", _ENABLING, enabled, usage.OperationMetadata())
        )

    async def test_permissions(request: TestIamPermissionsRequest) -> TestIamPermissionsResponse:
        project = google.require_service(request.resource.removeprefix("projects/"), "")
        return TestIamPermissionsResponse(
            permissions=[each for each in request.permissions if each not in project.denied_permissions]
        )

    async def get_project(request: manager.GetProjectRequest) -> manager.Project:
        found = google.require_service(request.name.removeprefix("projects/"), "")
        return manager.Project(name=f"projects/{found.number}", project_id=found.id, display_name=found.name)

    async def get_policy(request: GetIamPolicyRequest) -> Policy:
        project = google.require_service(request.resource.removeprefix("projects/"), "")
        _is_allowed(project, "resourcemanager.projects.getIamPolicy")
        return Policy(bindings=[Binding(role=role, members=names) for role, names in project.bindings.items()])

    spoken = "/google.api.serviceusage.v1.ServiceUsage"
    return {
        "/google.cloud.resourcemanager.v3.Projects/SearchProjects": Method(
            manager.SearchProjectsRequest, search_projects
        ),
        "/google.cloud.resourcemanager.v3.Projects/GetProject": Method(manager.GetProjectRequest, get_project),
        "/google.cloud.resourcemanager.v3.Projects/GetIamPolicy": Method(GetIamPolicyRequest, get_policy),
        "/google.cloud.resourcemanager.v3.Projects/TestIamPermissions": Method(
            TestIamPermissionsRequest, test_permissions
        ),
        f"{spoken}/ListServices": Method(usage.ListServicesRequest, list_services),
        f"{spoken}/GetService": Method(usage.GetServiceRequest, get_service),
        f"{spoken}/BatchGetServices": Method(usage.BatchGetServicesRequest, batch_get_services),
        f"{spoken}/EnableService": Method(usage.EnableServiceRequest, enable_service),
    }


def _is_allowed(project: PracticeProject, permission: str) -> None:
    if permission in project.denied_permissions:
        words = f"Permission '{permission}' denied on resource project {project.id}"
        raise RefusalError(grpc.StatusCode.PERMISSION_DENIED, words)


def _split_service_name(google: PracticeGoogle, name: str) -> tuple[PracticeProject, str]:
    parts = name.split("/")
    if len(parts) != 4 or not parts[3].endswith(".googleapis.com"):  # projects/P/services/S
        raise not_found_error(name)
    return google.require_service(parts[1], ""), parts[3]


def _service_message(project: PracticeProject, name: str) -> usage.Service:
    state = usage.State.ENABLED if name in project.enabled else usage.State.DISABLED
    return usage.Service(
        name=f"projects/{project.number}/services/{name}",
        parent=f"projects/{project.number}",
        config=usage.ServiceConfig(name=name),
        state=state,
    )
