"""What libcurl says of a connection, in plain words."""

from __future__ import annotations

import os
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import pycurl

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

_HTTP2_STREAM = 92
"""CURLE_HTTP2_STREAM, to which pycurl gives no name."""
_BROKE_OFF = frozenset({
    pycurl.E_PARTIAL_FILE, pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR,
    pycurl.E_HTTP2, _HTTP2_STREAM,
})  # fmt: skip
_NO_NAME = frozenset({pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY})
_NO_URL = frozenset({pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL})


class _ProxyRefusesError(ConnectionError):
    """A proxy's answer to CONNECT: its status."""


def explained(error: BaseException | None, curl: pycurl.Curl) -> BaseException | None:
    """The proxy's or the system's error where libcurl has but a number of it: it is gone with the transfer."""
    if not isinstance(error, pycurl.error):
        return error
    if (status := int(curl.getinfo(pycurl.HTTP_CONNECTCODE))) >= HTTPStatus.MULTIPLE_CHOICES:
        return _ProxyRefusesError(status)
    if error.args[0] == pycurl.E_COULDNT_CONNECT:
        number = int(curl.getinfo(pycurl.OS_ERRNO))
        return OSError(number, os.strerror(number)) if number else error
    return error


def _cause(error: pycurl.error | OSError, *, proxied: bool) -> tuple[str, str]:
    """Why there is no answer, and what to do about it."""
    if isinstance(error, OSError):
        return _system_cause(error, proxied=proxied)
    code, said = error.args[0], str(error.args[-1])
    if code in _BROKE_OFF:
        return "the connection broke off", TRY_AGAIN
    if code in _NO_NAME:
        return proxy_away(NO_NAME) if proxied else (NO_NAME, CHECK)
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return late(proxied=proxied)
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        return certificate(Exception(said))
    return said, TRY_AGAIN


def _system_cause(error: OSError, *, proxied: bool) -> tuple[str, str]:
    if isinstance(error, _ProxyRefusesError):
        return proxy_refuses(str(error))
    if proxied and error.errno:
        return proxy_away(system(error))
    return late(proxied=False) if isinstance(error, TimeoutError) else (system(error), CHECK)


@contextmanager
def told(login: Login, doing: str) -> Iterator[None]:
    """Turn what libcurl raises into Unreachable (or BadKubeconfig for an address that is none)."""
    try:
        yield
    except (pycurl.error, OSError) as error:
        if isinstance(error, pycurl.error) and error.args[0] in _NO_URL:
            raise no_address(login.server) from error
        raise unreachable(login.server, doing, *_cause(error, proxied=bool(login.proxy))) from error
