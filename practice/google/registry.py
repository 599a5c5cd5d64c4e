"""google.devtools.artifactregistry.v1: repositories, and the images that builds push into them."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import grpc
from google.cloud import artifactregistry_v1 as api
from google.iam.v1.iam_policy_pb2 import GetIamPolicyRequest
from google.iam.v1.policy_pb2 import Binding, Policy

from console.google.builds import repository_parts
from practice.google.cloud import PROJECT, REGION, not_found_error
from practice.google.longrunning import operation_message
from practice.google.serving import Method, RefusalError
from practice.node.registries import STOCK

if TYPE_CHECKING:
    from google.longrunning.operations_pb2 import Operation

    from practice.google.cloud import PracticeGoogle

SERVICE_PATH = "/google.devtools.artifactregistry.v1.ArtifactRegistry"
ADDRESS = f"{REGION}-docker.pkg.dev/{PROJECT}/a4"  # the repository that is there from the start
_CREATING = 4.0  # practice seconds that making a repository takes
DAY = 86400.0
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")  # what a repository may be called
ItemT = TypeVar("ItemT")


class RegistryStore:
    """The image repositories of practice Google with their images, by name."""

    def __init__(self, google: PracticeGoogle) -> None:
        self.world = google
        self.repositories: dict[str, api.Repository] = {}
        self.images: dict[str, api.DockerImage] = {}
        self.bindings: dict[str, dict[str, tuple[str, ...]]] = {}  # by repository: role -> members
        kinds = api.Repository.Format
        for project, place, name, kind in (
            (PROJECT, REGION, "a4", kinds.DOCKER),
            (PROJECT, REGION, "wheels", kinds.PYTHON),
            (PROJECT, REGION, "images", kinds.DOCKER),
            (PROJECT, "us", "mirror", kinds.DOCKER),
        ):
            path = f"projects/{project}/locations/{place}/repositories/{name}"
            self.repositories[path] = api.Repository(name=path, format_=kind, size_bytes=0)
        for image, size, days in STOCK:
            self.push_image(image, size, google.opening - days * DAY)

    def push_image(self, reference: str, size: int, moment: float) -> str:
        """Add an image and move its tag to it; returns the digest. Raises KeyError without the repository."""
        base, _, tag = reference.rpartition(":")
        address, _, name = base.rpartition("/")
        parts = repository_parts(address)
        if parts is None:
            raise KeyError(address)
        project, place, repository = parts
        path = f"projects/{project}/locations/{place}/repositories/{repository}"
        digest = f"sha256:{hashlib.sha256(f'{reference}{moment}'.encode()).hexdigest()}"
        self.repositories[path].size_bytes += size
        for each in self.images.values():
            if each.uri.startswith(f"{base}@") and tag in each.tags:
                each.tags = [kept for kept in each.tags if kept != tag]
        when = datetime.fromtimestamp(moment, UTC)
        self.images[f"{path}/dockerImages/{name}@{digest}"] = api.DockerImage(
            name=f"{path}/dockerImages/{name}@{digest}",
            uri=f"{base}@{digest}",
            tags=[tag],
            image_size_bytes=size,
            upload_time=when,
            build_time=when,
            media_type="application/vnd.docker.distribution.manifest.v2+json",
        )
        self.world.registries.add_image(reference, digest)
        return digest


def _find_by_name(things: dict[str, ItemT], name: str) -> ItemT:
    if name not in things:
        raise not_found_error(name)
    return things[name]


def grpc_methods(google: PracticeGoogle) -> dict[str, Method]:
    shelf = google.service_state(RegistryStore)

    async def list_repositories(request: api.ListRepositoriesRequest) -> api.ListRepositoriesResponse:
        found = [each for path, each in shelf.repositories.items() if path.startswith(f"{request.parent}/")]
        page, token = google.paginate(found, request.page_size, request.page_token)
        return api.ListRepositoriesResponse(repositories=page, next_page_token=token)

    async def get_repository(request: api.GetRepositoryRequest) -> api.Repository:
        return _find_by_name(shelf.repositories, request.name)

    async def create_repository(request: api.CreateRepositoryRequest) -> Operation:
        path = f"{request.parent}/repositories/{request.repository_id}"
        if not _NAME.fullmatch(request.repository_id):
            raise RefusalError(
                grpc.StatusCode.INVALID_ARGUMENT, "the repository id may hold lowercase letters, numbers, and hyphens"
            )
        if path in shelf.repositories:
            raise RefusalError(grpc.StatusCode.ALREADY_EXISTS, "the repository already exists")
        made = api.Repository(name=path, format_=request.repository.format_)

        def end() -> api.Repository:
            shelf.repositories[path] = made
            return made

        return operation_message(
            google.start_operation("CREATE_REPOSITORY", f"{request.parent}/", _CREATING, end, api.OperationMetadata())
        )

    async def list_images(request: api.ListDockerImagesRequest) -> api.ListDockerImagesResponse:
        _find_by_name(shelf.repositories, request.parent)
        found = [each for path, each in shelf.images.items() if path.startswith(f"{request.parent}/")]
        page, token = google.paginate(found, request.page_size, request.page_token)
        return api.ListDockerImagesResponse(docker_images=page, next_page_token=token)

    async def get_image(request: api.GetDockerImageRequest) -> api.DockerImage:
        return _find_by_name(shelf.images, request.name)

    async def get_policy(request: GetIamPolicyRequest) -> Policy:
        _find_by_name(shelf.repositories, request.resource)
        bindings = shelf.bindings.get(request.resource, {})
        return Policy(bindings=[Binding(role=role, members=names) for role, names in bindings.items()])

    return {
        f"{SERVICE_PATH}/GetIamPolicy": Method(GetIamPolicyRequest, get_policy),
        f"{SERVICE_PATH}/ListRepositories": Method(api.ListRepositoriesRequest, list_repositories),
        f"{SERVICE_PATH}/GetRepository": Method(api.GetRepositoryRequest, get_repository),
        f"{SERVICE_PATH}/CreateRepository": Method(api.CreateRepositoryRequest, create_repository),
        f"{SERVICE_PATH}/ListDockerImages": Method(api.ListDockerImagesRequest, list_images),
        f"{SERVICE_PATH}/GetDockerImage": Method(api.GetDockerImageRequest, get_image),
    }
