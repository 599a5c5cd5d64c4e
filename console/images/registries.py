"""What the registries of a project hold, around one region."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from console.errors import ConsoleError
from console.models.build import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.google.registry import Registries
    from console.models.build import Image, Repository

AT_ONCE = 4
"""Repositories that are read at the same time."""


async def survey(registries: Registries, project: str, location: str) -> Registry:
    """All images in a region and in the continent around it; what could not be read is named.

    Raises what keeps the region itself from being read.
    """
    around = location.partition("-")[0]
    places = [location, around] if around in {"us", "europe", "asia"} else [location]
    unread: list[tuple[str, str]] = []
    repositories: list[Repository] = []
    answers = await asyncio.gather(*(registries.repositories(project, each) for each in places), return_exceptions=True)
    for place, answer in zip(places, answers, strict=True):
        if isinstance(answer, BaseException):
            if place == location or not isinstance(answer, ConsoleError):
                raise answer
            unread.append((place, answer.message))
        else:
            repositories += answer
    images = await _images(registries, repositories, unread)
    return Registry(tuple(repositories), images, tuple(unread))


async def _images(
    registries: Registries, repositories: Sequence[Repository], unread: list[tuple[str, str]]
) -> tuple[Image, ...]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(repository: Repository) -> tuple[Image, ...]:
        async with room:
            try:
                return await registries.images(repository)
            except ConsoleError as error:
                unread.append((repository.address, error.message))
                return ()

    answers = await asyncio.gather(*(one(each) for each in repositories if each.format == "DOCKER"))
    return tuple(sorted((each for answer in answers for each in answer), key=lambda each: -each.uploaded))
