"""Clusters of Google's as rows and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from console.errors import ApiDisabled
from screens.widgets.column import Column
from screens.widgets.notice import Notice
from screens.widgets.table import ResourceTable
from screens.wording import BAD, IDLE, OK, WAITS, Cell, Run, sentence

if TYPE_CHECKING:
    from console.errors import ConsoleError
    from console.models.gke import GkeCluster

_GLYPHS = {"RUNNING": OK, "ERROR": BAD, "DEGRADED": BAD, "STOPPING": IDLE}


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster, or a project whose clusters could not be listed."""

    project: str
    cluster: GkeCluster | None = None
    error: ConsoleError | None = None
    here: bool = False


def status(row: ClusterRow) -> Cell:
    """State with its glyph."""
    if row.cluster is None:
        return [BAD, Run(" not read", "bad")]
    glyph = _GLYPHS.get(row.cluster.status, WAITS)
    return [glyph, Run(f" {row.cluster.status.lower().replace('_', ' ')}")]


def entrance(row: ClusterRow) -> Cell:
    """How it can be reached."""
    cluster = row.cluster
    if cluster is None:
        return ""
    if cluster.dns_endpoint:
        return "DNS endpoint"
    if not cluster.endpoint:
        return Run("none", "dim")
    return Run("private", "waits") if cluster.private else "public"


def why(row: ClusterRow) -> Cell:
    """Where one is, or what is wrong."""
    if row.error is not None:
        return Run(sentence(row.error.message), "dim")
    if row.here:
        return Run("you are here", "accent")
    return Run(sentence(row.cluster.message), "bad") if row.cluster and row.cluster.message else ""


class ClusterTable(ResourceTable[ClusterRow]):
    """Clusters by project."""

    NOUN = "cluster"
    EMPTY = Notice("No clusters.", "The login sees no project with a cluster.")
    COLUMNS: ClassVar = (
        Column("CLUSTER", lambda row: Run(row.cluster.name if row.cluster else "─", "strong"), least=8, most=40,
               sort=lambda row: row.cluster.name if row.cluster else ""),
        Column("PROJECT", lambda row: row.project, least=8, most=30, sort=lambda row: row.project),
        Column("LOCATION", lambda row: row.cluster.location if row.cluster else "", least=13, most=20,
               sort=lambda row: row.cluster.location if row.cluster else ""),
        Column("STATUS", status, least=11, most=16, sort=lambda row: row.cluster.status if row.cluster else ""),
        Column("NODES", lambda row: f"{row.cluster.nodes:,}" if row.cluster else "", width=6, right=True, drop=7,
               sort=lambda row: row.cluster.nodes if row.cluster else -1, down=True),
        Column("VERSION", lambda row: row.cluster.version if row.cluster else "", most=20, drop=8, ink="dim",
               sort=lambda row: row.cluster.version if row.cluster else ""),
        Column("ENTRANCE", entrance, least=8, most=12, drop=2),
        Column("", why, fill=True, least=0, drop=6),
    )  # fmt: skip

    def row_text(self, row: ClusterRow) -> str:
        """Names and place."""
        place = f"{row.cluster.name} {row.cluster.location} {row.cluster.status}" if row.cluster else ""
        return f"{row.project} {place}"


def sentence_of(row: ClusterRow, *, may_enable: bool = False) -> list[Run]:
    """What there is to know of a row; `may_enable`: a key enables what the project lacks."""
    if row.error is not None:
        hint = "E enables it." if may_enable and isinstance(row.error, ApiDisabled) else row.error.hint
        return [Run(f"{row.project}: ", "strong"), Run(row.error.message), Run(f" {hint}", "dim")]
    cluster = row.cluster
    assert cluster is not None
    pools = ", ".join(f"{each.name} ({each.machine_type})" for each in cluster.pools) or "no pools"
    ways = [f"IP {cluster.endpoint}" if cluster.endpoint else "", cluster.dns_endpoint]
    said = [Run(f"{cluster.path}  ", "strong")]
    said += [Run("you are here, Enter shows its node pools  ", "accent")] if row.here else []
    said += [Run(f"{sentence(cluster.message)}  ", "bad")] if cluster.message else []
    said.append(Run(pools, "text"))
    said += [Run(f"   {', '.join(filter(None, ways)) or 'no address'}", "dim")]
    if cluster.private and not cluster.dns_endpoint:
        said.append(Run("   only from inside its network", "waits"))
    if cluster.maintenance:
        said.append(Run(f"   maintenance: {cluster.maintenance}", "dim"))
    return said
