"""The list and get methods that Lustre and Filestore share."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from practice.google.cloud import PracticeGoogle, not_found_error
from practice.google.serving import Method


def grpc_methods(google: PracticeGoogle, service: str, api: ModuleType, known: Mapping[str, Any]) -> dict[str, Method]:
    """The methods ListInstances and GetInstance of a service; `api`: its message types, `known`: its instances."""

    async def list_instances(request: Any) -> Any:
        _, project, _, location = request.parent.split("/")
        prefix = f"projects/{project}/locations/" + ("" if location == "-" else f"{location}/")
        found = [each for name, each in known.items() if name.startswith(prefix)]
        page, token = google.paginate(found, request.page_size, request.page_token)
        return api.ListInstancesResponse(instances=page, next_page_token=token)

    async def get_instance(request: Any) -> Any:
        if request.name not in known:
            raise not_found_error(request.name)
        return known[request.name]

    return {
        f"{service}/ListInstances": Method(api.ListInstancesRequest, list_instances),
        f"{service}/GetInstance": Method(api.GetInstanceRequest, get_instance),
    }
