"""What goes wrong below HTTP, in plain words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp

from console.cluster.causes import CHECK, certificate, no_address, proxy_refuses, system, unreachable
from console.errors import TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator


def cause(error: BaseException) -> tuple[str, str]:
    """Why there is no answer, and what to do about it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return certificate(error.certificate_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return proxy_refuses(str(error.status))
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved", CHECK
    if isinstance(error, TimeoutError):
        return "it did not answer in time", CHECK
    if isinstance(error, aiohttp.ClientConnectorError):
        return system(error.os_error), CHECK
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the connection broke off", TRY_AGAIN
    if isinstance(error, OSError):
        return system(error), TRY_AGAIN
    return str(error).strip() or type(error).__name__, TRY_AGAIN


@contextmanager
def told(server: str, doing: str) -> Iterator[None]:
    """Turn what the transport raises into Unreachable (or BadKubeconfig for an address that is none)."""
    try:
        yield
    except aiohttp.InvalidURL as error:
        raise no_address(server) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise unreachable(server, doing, *cause(error)) from error
