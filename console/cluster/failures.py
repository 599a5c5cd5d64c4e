"""What goes wrong below HTTP, in plain words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp

from console.cluster.causes import (
    CHECK,
    NO_NAME,
    certificate,
    late,
    no_address,
    proxy_away,
    proxy_refuses,
    system,
    unreachable,
)
from console.errors import TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.cluster.login import Login


def cause(error: BaseException, *, proxied: bool) -> tuple[str, str]:
    """Why there is no answer, and what to do about it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return certificate(error.certificate_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return proxy_refuses(str(error.status))
    if isinstance(error, aiohttp.ClientConnectorDNSError):  # with a proxy, no other name is asked for
        return proxy_away(NO_NAME) if proxied else (NO_NAME, CHECK)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return proxy_away(system(error.os_error))
    if isinstance(error, TimeoutError):
        return late(proxied=proxied and isinstance(error, aiohttp.ConnectionTimeoutError))
    if isinstance(error, aiohttp.ClientConnectorError):
        return system(error.os_error), CHECK
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the connection broke off", TRY_AGAIN
    if isinstance(error, OSError):
        return system(error), TRY_AGAIN
    return str(error).strip() or type(error).__name__, TRY_AGAIN


@contextmanager
def told(login: Login, doing: str) -> Iterator[None]:
    """Turn what the transport raises into Unreachable (or BadKubeconfig for an address that is none)."""
    try:
        yield
    except aiohttp.InvalidURL as error:
        raise no_address(login.server) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unreachable(login.server, doing, *cause(error, proxied=bool(login.proxy))) from error
