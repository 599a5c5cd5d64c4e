"""Cells and columns of tunnels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens import wording
from screens.columns.column import COMMAND, Column, age_column
from screens.wording import BAD, IDLE, OK, UNDER_WAY, Cell, Span

if TYPE_CHECKING:
    from console.attach.tunnel.tunnel_files import Tunnel, TunnelProfile

TUNNEL_GLYPHS = {"ready": OK, "waiting": UNDER_WAY, "lost": BAD, "ended": IDLE}


def _state_cell(tunnel: Tunnel) -> Cell:
    mark = TUNNEL_GLYPHS.get(tunnel.state, UNDER_WAY)
    return [mark, Span(f" {tunnel.state}", "bad" if mark.style == "bad" else "")]


def ports_cell(tunnel: Tunnel) -> Cell:
    """A cell with the local and remote port of a tunnel; one number if they are equal."""
    pairs = (
        f"{each.local}→{each.remote}" if each.local != each.remote else f"{each.local}" for each in tunnel.listeners
    )
    return " ".join(pairs)


def _bytes_out(tunnel: Tunnel) -> int:
    return sum(each.sent for each in tunnel.listeners)


def _bytes_in(tunnel: Tunnel) -> int:
    return sum(each.received for each in tunnel.listeners)


def open_connections(tunnel: Tunnel) -> int:
    return sum(each.open for each in tunnel.listeners)


def _bytes_cell(amount: int) -> Cell:
    return wording.size(amount) if amount else Span("0", "dim")


def _connections_cell(tunnel: Tunnel) -> Cell:
    so_far = sum(each.connections for each in tunnel.listeners)
    return [Span(f"{open_connections(tunnel)}"), Span(f" of {so_far}", "dim")]


TUNNELS: tuple[Column[Tunnel], ...] = (
    Column("NAME", lambda tunnel: tunnel.name, only=COMMAND),
    Column("STATE", _state_cell, width=9, sort=lambda tunnel: tunnel.state),
    Column("TARGET", lambda tunnel: str(tunnel.address), least=12, most=48, sort=True, style="strong"),
    Column("PORTS", ports_cell, least=5, most=36),
    Column("OPEN", _connections_cell, least=8, most=12, sort=open_connections, down=True, drop=3),
    Column("SENT", lambda tunnel: _bytes_cell(_bytes_out(tunnel)), width=9, right=True, sort=_bytes_out,
           down=True, drop=5),
    Column("RECEIVED", lambda tunnel: _bytes_cell(_bytes_in(tunnel)), width=9, right=True, sort=_bytes_in,
           down=True, drop=4),
    Column("LIFETIME", lambda tunnel: "background" if tunnel.kept else Span("with its program", "dim"),
           least=9, most=16, sort=lambda tunnel: tunnel.kept, drop=6),
    Column("POD", lambda tunnel: tunnel.pod, least=10, most=50, cut="middle", drop=7, style="dim"),
    Column("NAMESPACE", lambda tunnel: tunnel.namespace, most=20, drop=8, style="dim"),
    Column("CLUSTER", lambda tunnel: tunnel.context, most=24, drop=9, cut="middle", style="dim"),
    age_column("AGE", lambda tunnel: tunnel.since),
    Column("WHY", lambda tunnel: tunnel.words or tunnel.last_end, only=COMMAND, fill=True),
)  # fmt: skip

PROFILES: tuple[Column[TunnelProfile], ...] = (
    Column("PROFILE", lambda profile: profile.name),
    Column("CONTEXT", lambda profile: profile.context),
    Column("NAMESPACE", lambda profile: profile.namespace),
    Column("TARGET", lambda profile: f"{profile.job} {profile.rank}"),
    Column("PORTS", lambda profile: " ".join(profile.ports)),
)
