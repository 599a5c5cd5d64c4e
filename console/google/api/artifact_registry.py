"""Artifact Registry: repositories and the images in them; the only importer of google.cloud.artifactregistry."""

from __future__ import annotations

import asyncio
from typing import Any

from google.cloud import artifactregistry_v1 as api

from console.errors import Unreachable
from console.google.api import members_by_role
from console.google.api.calls import GoogleSession, list_all, name_of, seconds_of, translate_errors
from console.google.builds import Image, Repository

REGISTRY_TIMEOUT = 30.0
CREATE_TIMEOUT = 120.0  # seconds that making a repository may take


class ArtifactRegistry:
    def __init__(self, session: GoogleSession) -> None:
        self._client = session.client(api.ArtifactRegistryAsyncClient)

    async def repositories(self, project: str, location: str) -> tuple[Repository, ...]:
        request = api.ListRepositoriesRequest(parent=f"projects/{project}/locations/{location}", page_size=1000)
        doing, asked = f"list the image repositories of {project} in {location}", self._client.list_repositories
        return tuple(await list_all(doing, asked(request, timeout=REGISTRY_TIMEOUT), _parse_repository))

    async def repository(self, project: str, location: str, name: str) -> Repository:
        path = f"projects/{project}/locations/{location}/repositories/{name}"
        with translate_errors(f"read repository {name} in {location}"):
            return _parse_repository(await self._client.get_repository(name=path, timeout=REGISTRY_TIMEOUT))

    async def read_role_members(self, project: str, location: str, name: str) -> dict[str, frozenset[str]]:
        """The IAM policy of a repository: role -> members."""
        path = f"projects/{project}/locations/{location}/repositories/{name}"
        with translate_errors(f"read the IAM policy of repository {name}"):
            policy = await self._client.get_iam_policy({"resource": path}, timeout=REGISTRY_TIMEOUT)
            return members_by_role((each.role, each.members) for each in policy.bindings)

    async def create_repository(self, project: str, location: str, name: str) -> Repository:
        """Create a Docker repository and wait until it exists; Unreachable after CREATE_TIMEOUT seconds."""
        request = api.CreateRepositoryRequest(
            parent=f"projects/{project}/locations/{location}",
            repository_id=name,
            repository=api.Repository(format_=api.Repository.Format.DOCKER),
        )
        with translate_errors(f"create repository {name} in {location}"):
            begun: Any = await self._client.create_repository(request, timeout=REGISTRY_TIMEOUT)
            try:
                async with asyncio.timeout(CREATE_TIMEOUT):
                    return _parse_repository(await begun.result(timeout=None))
            except TimeoutError as error:
                words = f"Repository {name} was not ready within {CREATE_TIMEOUT:.0f} s."
                raise Unreachable(words, "It may still become ready: check again later.") from error

    async def images(self, repository: Repository) -> tuple[Image, ...]:
        parent = f"projects/{repository.project}/locations/{repository.location}/repositories/{repository.name}"
        request = api.ListDockerImagesRequest(parent=parent, page_size=1000)
        doing, asked = f"list the images of {repository.address}", self._client.list_docker_images
        found = await list_all(
            doing, asked(request, timeout=REGISTRY_TIMEOUT), lambda each: _parse_image(repository.address, each)
        )
        return tuple(sorted(found, key=lambda each: -each.uploaded))


def _parse_repository(response: Any) -> Repository:
    parts = response.name.split("/")  # projects/P/locations/L/repositories/R
    return Repository(parts[1], parts[3], parts[5], name_of(response.format_), response.size_bytes)


def _parse_image(address: str, response: Any) -> Image:
    base, _, digest = response.uri.partition("@")
    return Image(
        repository=address,
        name=base.removeprefix(f"{address}/"),
        tags=tuple(response.tags),
        digest=digest,
        bytes=response.image_size_bytes,
        uploaded=seconds_of(response.upload_time),
        built=seconds_of(response.build_time),
    )
