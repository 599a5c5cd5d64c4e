"""What checks ask of Google beside the cluster itself; every library is loaded at the first question, in a thread."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from console.google import loaded
from console.preflight.looking import GOOGLE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from console.models.build import Build, Repository
    from console.models.google_networks import Reservation
    from console.models.storage import Bucket, FilestoreInstance, LustreInstance
    from console.preflight.looking import Looking


_BUILDS = 20
"""How many of the latest builds are looked at."""


async def permissions(look: Looking, project: str, wanted: Collection[str]) -> frozenset[str]:
    """Which of these permissions the login has in a project."""

    async def question() -> frozenset[str]:
        module = await loaded("console.google.projects")
        found: frozenset[str] = await module.permissions(await look.cluster.cloud.reach(), project, tuple(wanted))
        return found

    return await look.ask(GOOGLE, f"resourcemanager: rights in {project} ({len(wanted)})", question)


async def project_number(look: Looking, project: str) -> str:
    """A project's number."""

    async def question() -> str:
        module = await loaded("console.google.projects")
        found: str = await module.number(await look.cluster.cloud.reach(), project)
        return found

    return await look.ask(GOOGLE, f"resourcemanager: project {project}", question)


async def project_members(look: Looking, project: str) -> Mapping[str, Collection[str]]:
    """Role -> who has it in a whole project."""

    async def question() -> Mapping[str, Collection[str]]:
        module = await loaded("console.google.projects")
        found: Mapping[str, Collection[str]] = await module.members(await look.cluster.cloud.reach(), project)
        return found

    return await look.ask(GOOGLE, f"resourcemanager: who may do what in {project}", question)


async def enabled(look: Looking, project: str, services: Collection[str]) -> frozenset[str]:
    """Which of these services a project has enabled."""

    async def question() -> frozenset[str]:
        module = await loaded("console.google.services")
        found: frozenset[str] = await module.enabled(await look.cluster.cloud.reach(), project, services)
        return found

    return await look.ask(GOOGLE, f"serviceusage: services of {project}", question)


async def reservation(look: Looking, project: str, zone: str, name: str) -> Reservation:
    """A reservation of machines."""

    async def question() -> Reservation:
        module = await loaded("console.google.reservations")
        found: Reservation = await module.reservation(await look.cluster.cloud.reach(), project, zone, name)
        return found

    return await look.ask(GOOGLE, f"compute: reservation {name} in {zone}", question)


async def bucket(look: Looking, name: str) -> Bucket:
    """A bucket's facts."""

    async def question() -> Bucket:
        module = await loaded("console.google.storage")
        place = await look.place()
        found: Bucket = await module.Buckets(await look.cluster.cloud.reach(), place.project).bucket(name)
        return found

    return await look.ask(GOOGLE, f"storage: bucket {name}", question)


async def buckets(look: Looking, project: str) -> tuple[Bucket, ...]:
    """All buckets of a project."""

    async def question() -> tuple[Bucket, ...]:
        module = await loaded("console.google.storage")
        found: tuple[Bucket, ...] = await module.Buckets(await look.cluster.cloud.reach(), project).listed()
        return found

    return await look.ask(GOOGLE, f"storage: buckets of {project}", question)


async def members(look: Looking, name: str) -> Mapping[str, Collection[str]]:
    """Role -> who has it on a bucket."""

    async def question() -> Mapping[str, Collection[str]]:
        module = await loaded("console.google.storage")
        place = await look.place()
        buckets = module.Buckets(await look.cluster.cloud.reach(), place.project)
        found: Mapping[str, Collection[str]] = await buckets.members(name)
        return found

    return await look.ask(GOOGLE, f"storage: who may use bucket {name}", question)


async def repository_members(look: Looking, project: str, location: str, name: str) -> Mapping[str, Collection[str]]:
    """Role -> who has it on a repository."""

    async def question() -> Mapping[str, Collection[str]]:
        module = await loaded("console.google.registry")
        registries = module.Registries(await look.cluster.cloud.reach())
        found: Mapping[str, Collection[str]] = await registries.members(project, location, name)
        return found

    return await look.ask(GOOGLE, f"artifactregistry: who may use {name} in {location}", question)


async def builds(look: Looking, project: str, location: str) -> tuple[Build, ...]:
    """The latest builds of a project in a region, latest first."""

    async def question() -> tuple[Build, ...]:
        module = await loaded("console.google.build")
        found: list[Build] = []
        source = module.Builds(await look.cluster.cloud.reach(), project, location)
        async with aclosing(source.listed()) as pages:
            async for each in pages:
                found.append(each)
                if len(found) >= _BUILDS:
                    break
        return tuple(found)

    return await look.ask(GOOGLE, f"cloudbuild: builds of {project} in {location}", question)


async def repositories(look: Looking, project: str, location: str) -> tuple[Repository, ...]:
    """Repositories of Artifact Registry in a location."""

    async def question() -> tuple[Repository, ...]:
        module = await loaded("console.google.registry")
        found: tuple[Repository, ...] = await module.Registries(await look.cluster.cloud.reach()).repositories(
            project, location
        )
        return found

    return await look.ask(GOOGLE, f"artifactregistry: repositories of {project} in {location}", question)


async def lustre_instances(look: Looking, project: str) -> tuple[LustreInstance, ...]:
    """Managed Lustre instances of a project, wherever they lie."""

    async def question() -> tuple[LustreInstance, ...]:
        module = await loaded("console.google.lustre")
        found: tuple[LustreInstance, ...] = await module.instances(await look.cluster.cloud.reach(), project)
        return found

    return await look.ask(GOOGLE, f"lustre: instances of {project}", question)


async def filestore_instances(look: Looking, project: str) -> tuple[FilestoreInstance, ...]:
    """Filestore instances of a project, wherever they lie."""

    async def question() -> tuple[FilestoreInstance, ...]:
        module = await loaded("console.google.filestore")
        found: tuple[FilestoreInstance, ...] = await module.instances(await look.cluster.cloud.reach(), project)
        return found

    return await look.ask(GOOGLE, f"filestore: instances of {project}", question)
