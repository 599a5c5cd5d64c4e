"""A cluster to launch on, with Google Cloud around it: node pools, images, storage; loaded when first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from console.errors import Unreachable
from console.launching import LaunchingCluster
from console.models.offer import unasked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.cloud import Cloud
    from console.images import Images
    from console.models.offer import Offer
    from console.nodepools import NodePools
    from console.storage import StoredThings


class ClusterInCloud(LaunchingCluster):
    """What Google's own services know and do for it."""

    async def close(self) -> None:
        """End everything."""
        if "storage" in vars(self):
            await self.storage.close()
        if "cloud" in vars(self):
            await self.cloud.close()
        await super().close()

    @cached_property
    def cloud(self) -> Cloud:
        """Google Cloud around this cluster; its libraries are loaded by the first question."""
        from console.cloud import Cloud

        return Cloud(self)

    @property
    def node_pools(self) -> NodePools:
        """The node pools of this cluster as Google has them."""
        from console.nodepools import NodePools

        return NodePools(self, self.cloud)

    @cached_property
    def images(self) -> Images:
        """Image builds, and the images of registries."""
        from console.images import Images

        return Images(self.cloud)

    @cached_property
    def storage(self) -> StoredThings:
        """Buckets, and the file systems that pods can mount."""
        from console.storage import StoredThings

        return StoredThings(self.cloud, lambda: self.follow)

    async def choices(self, namespace: str = "") -> Mapping[str, Offer]:
        """As of any cluster, the images with those that were built from here; what only Google knows waits for it."""
        found = dict(await super().choices(namespace))
        if "images" in found:
            found["images"] = await self.images.offered(found["images"])
        return {**found, **unasked()}

    async def google_offer(self, kind: str) -> Offer:
        """What Google has to choose from for one kind of field, of `GOOGLE_KINDS`; why nothing, where it is nothing."""
        from console.cloud_offers import offer_of

        return await offer_of(self, kind)


class GoogleAlone:
    """Images and storage for whoever is connected to no cluster, and has nothing but Google credentials."""

    def __init__(self, *, read_only: bool = False) -> None:
        from console.cloud import Cloud
        from console.images import Images
        from console.storage import StoredThings

        self.cloud = Cloud(read_only=read_only)
        self.images = Images(self.cloud)
        self.storage = StoredThings(self.cloud, _no_jobs)

    async def close(self) -> None:
        """End all connections."""
        await self.storage.close()
        await self.cloud.close()


def _no_jobs() -> NoReturn:
    raise Unreachable("No cluster is connected.", "a4 clusters lists those there are.")
