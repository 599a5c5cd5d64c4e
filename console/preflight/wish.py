"""What is to be run: the checks that matter, and how strict they are, follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from console.models.outlook import Ask, ask_of
from console.models.places import MACHINE_GPUS
from console.models.values import look

if TYPE_CHECKING:
    from console.models.values import Value

USUAL_GPUS = 2 * MACHINE_GPUS
"""Where no recipe says otherwise: the two nodes that the documents ask for at least."""


class Need(StrEnum):
    """Whether the launch needs a thing."""

    YES = "yes"
    NO = "no"
    OPEN = "open"
    """No recipe was chosen: what is missing is told, and fails nothing."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A launch to be, or none: then the cluster as a whole is looked at."""

    namespace: str
    recipe: str = ""
    name: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    """All values of the chart, nested; empty without a recipe."""
    bucket: str = ""
    """A bucket to look at that no value names."""
    registry: str = ""
    """LOCATION-docker.pkg.dev/PROJECT/REPOSITORY that images are built into; empty: the usual one of the project."""

    def text(self, path: str) -> str:
        """A value as text; empty where there is none."""
        found = look(self.values, path)
        return "" if found is None or found is False else str(found)

    def flag(self, path: str) -> bool:
        """A value that is true or false."""
        return look(self.values, path) is True

    def need(self, wanted: bool) -> Need:
        """What follows for something that the recipe wants or does not want."""
        if not self.recipe:
            return Need.OPEN
        return Need.YES if wanted else Need.NO

    @property
    def ask(self) -> Ask:
        """What it asks of queues and machines."""
        return ask_of(self.values, self.namespace) if self.recipe else Ask(self.namespace, gpus=USUAL_GPUS)

    @property
    def buckets(self) -> tuple[str, ...]:
        """Buckets that it mounts, else the one to be looked at."""
        mounted = look(self.values, "storage.gcs")
        names = tuple(mounted) if isinstance(mounted, Mapping) else ()
        return names or ((self.bucket,) if self.bucket else ())

    @property
    def mounts_nfs(self) -> bool:
        """Whether pods mount NFS: by a claim that exists, or one that is made."""
        return bool(self.text("storage.nfs.claim") or self.text("storage.nfs.server"))

    @property
    def mounts_lustre(self) -> bool:
        """Whether pods mount Managed Lustre."""
        return bool(self.text("storage.lustre.claim") or self.text("storage.lustre.server"))

    @property
    def account(self) -> str:
        """The ServiceAccount of its pods."""
        return self.text("serviceAccount") or "default"

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports over which its pods reach each other."""
        master = self.text("network.masterPort")
        return 2222, int(master) if master.isdecimal() else 6002
