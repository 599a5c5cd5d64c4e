"""The Secrets in which Helm keeps its releases, looked at before Helm unpacks them: none may fill the memory.

Whoever may write a Secret can write down a release of one megabyte that unpacks to gigabytes, and Helm unpacks all of a
namespace to list them.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from console.errors import NotAllowed, ReleaseFailed, Unreadable
from console.parsers.meta import UNREADABLE, ObjectWire, Wire
from console.parsers.page import ListMetaWire

if TYPE_CHECKING:
    from console.cluster.client import Client

LARGEST = 32 << 20
"""Bytes of one unpacked release; the chart's have 0.2 MB, and the largest charts there are some 10."""
PAGE = "40"
"""Secrets asked for at a time: each has a megabyte at most."""
_GZIP = 31


class _Data(Wire):
    release: str | None = None


class _Secret(ObjectWire):
    data: _Data | None = None


class _Page(Wire):
    metadata: ListMetaWire | None = None
    items: list[_Secret] | None = None


async def require_small(client: Client, namespace: str, name: str = "") -> None:
    """ReleaseFailed if a release of that name (empty: any) in that namespace (empty: all) is too large to be unpacked.

    An account that may not list Secrets is left to Helm, which then may not either.
    """
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    selector = f"owner=helm,name={name}" if name else "owner=helm"
    token = ""
    while True:
        params = {"labelSelector": selector, "limit": PAGE, **({"continue": token} if token else {})}
        try:
            body = await client.request("GET", f"/api/v1{where}/secrets", doing="look at the releases", params=params)
        except NotAllowed:
            return
        try:
            page = msgspec.json.decode(body, type=_Page)
        except UNREADABLE as error:
            raise Unreadable(f"The Secrets of the releases cannot be read: {error}.") from error
        for secret in page.items or ():
            if secret.data and secret.data.release and not _is_small(secret.data.release):
                meta = secret.metadata
                raise ReleaseFailed(
                    f"The Secret {meta.name} in {meta.namespace} unpacks to more than {LARGEST >> 20} MiB:"
                    " it is no release of Helm's.",
                    f"If nobody knows it, delete it: kubectl delete secret -n {meta.namespace} {meta.name}",
                )
        token = (page.metadata.next if page.metadata else "") or ""
        if not token:
            return


def _is_small(release: str) -> bool:
    try:
        packed = base64.b64decode(base64.b64decode(release))
        unpacking = zlib.decompressobj(_GZIP)
        unpacking.decompress(packed, LARGEST)
    except (binascii.Error, ValueError, zlib.error):
        return True  # Helm leaves out what it cannot read, and unpacks nothing of it
    return not unpacking.unconsumed_tail
