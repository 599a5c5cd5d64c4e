"""Tunnels as the console has them: its own, which end with it, and those of every other process of this user."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from console.attach.tunnel import published
from console.attach.tunnel import published as memory
from console.attach.tunnel.background import Order, Running, detach, start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.attach.tunnel.model import Profile, Tunnel
    from console.kube.rank_address import Address
    from console.kube.watched_cluster import WatchedCluster


class Tunnels:
    """Opens tunnels to ranks of the session's cluster; lists and stops all there are."""

    def __init__(self, watched: WatchedCluster) -> None:
        self._watched = watched
        self._running: dict[str, Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, address: Address, ports: Sequence[str], *, keep: bool = False) -> tuple[Tunnel, list[str]]:
        """Open ports (`8888`, `9000:8888`); how it is, and what was done otherwise than asked.

        With `keep` it goes on when this process ends. Raises BadInput (port taken, no such rank), Ended, Refused.
        """
        settings = self._watched.settings
        file = str(await asyncio.to_thread(settings.kubeconfig.absolute)) if settings.kubeconfig else ""
        order = Order(address.namespace, address.job_text, address.rank_text, tuple(ports), self._watched.context, file)
        if keep:
            return await detach(order)
        running = await start(self._watched.connected.client.login, order, kept=False)
        self._running[running.tunnel.name] = running
        task = asyncio.create_task(self._end(running), name=f"tunnel:{running.tunnel.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return running.tunnel, running.forwarding.notes

    async def _end(self, running: Running) -> None:
        try:
            await running.over()
        finally:
            self._running.pop(running.tunnel.name, None)
            await running.close()

    async def listed(self) -> tuple[Tunnel, ...]:
        """Every tunnel of this user, by name; those that have ended for a day."""
        return await published.listed()

    async def stop(self, name: str) -> Tunnel:
        """End a tunnel, or forget one that has ended."""
        return await published.stop(name)

    async def profiles(self) -> tuple[Profile, ...]:
        return await asyncio.to_thread(memory.profiles)

    async def save(self, profile: Profile) -> None:
        """Save it, in place of one of the same name."""
        await asyncio.to_thread(memory.save_profile, profile)

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for running in tuple(self._running.values()):
            running.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
