"""Tunnels of a FakeSession: kept in a list, calls noted with the session's own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from console.attach.tunnel.published import Listener, Tunnel
from console.kube.rank_address import PortPair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.attach.tunnel.published import TunnelProfile
    from console.kube.rank_address import RankAddress
    from tests.fakes import FakeSession


class FakeTunnels:
    """`console.attach.tunnel.background.Tunnels` without ports."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.tunnels: list[Tunnel] = []
        self.saved: list[TunnelProfile] = []

    async def open_tunnel(
        self, address: RankAddress, ports: Sequence[str], *, keep: bool = False
    ) -> tuple[Tunnel, list[str]]:
        self._session._did("open_tunnel", address, tuple(ports), keep)
        pairs = [PortPair.parse(each) for each in ports]
        made = Tunnel(
            name=address.slug, namespace=address.namespace, job=address.job_text, rank=address.rank_text,
            context=self._session.context, server="https://here", state="ready", pod="a-pod", since=time.time(),
            listeners=tuple(Listener(each.local or each.remote, each.remote) for each in pairs), kept=keep,
        )  # fmt: skip
        self.tunnels.append(made)
        return made, []

    async def list_tunnels(self) -> tuple[Tunnel, ...]:
        return tuple(self.tunnels)

    async def stop_tunnel(self, name: str) -> Tunnel:
        self._session._did("stop_tunnel", name)
        was = next(each for each in self.tunnels if each.name == name)
        self.tunnels.remove(was)
        return was

    async def list_profiles(self) -> tuple[TunnelProfile, ...]:
        return tuple(self.saved)

    async def save_profile(self, profile: TunnelProfile) -> None:
        self.saved.append(profile)
