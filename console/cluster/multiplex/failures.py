"""What libcurl says of a connection, in plain words."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pycurl

from console.cluster.causes import CHECK, certificate, no_address, proxy_refuses, system, unreachable
from console.errors import TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

_HTTP2_STREAM = 92
"""CURLE_HTTP2_STREAM, to which pycurl gives no name."""
_BROKE_OFF = frozenset({
    pycurl.E_PARTIAL_FILE, pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR,
    pycurl.E_HTTP2, _HTTP2_STREAM,
})  # fmt: skip
_REFUSED = re.compile(r"CONNECT tunnel failed, response (\d+)")
_NO_NAME = frozenset({pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY})
_NO_URL = frozenset({pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL})


def explained(error: BaseException | None, curl: pycurl.Curl) -> BaseException | None:
    """The system's error where libcurl has but a number of it: it is gone with the transfer."""
    if isinstance(error, pycurl.error) and error.args[0] == pycurl.E_COULDNT_CONNECT:
        number = int(curl.getinfo(pycurl.OS_ERRNO))
        return OSError(number, os.strerror(number)) if number else error
    return error


def _cause(error: pycurl.error | OSError) -> tuple[str, str]:
    """Why there is no answer, and what to do about it."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time", CHECK
    if isinstance(error, OSError):
        return system(error), CHECK
    code, said = error.args[0], str(error.args[-1])
    if refused := _REFUSED.search(said):
        return proxy_refuses(refused[1])
    if code in _BROKE_OFF:
        return "the connection broke off", TRY_AGAIN
    if code in _NO_NAME:
        return "its name cannot be resolved", CHECK
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return "it did not answer in time", CHECK
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        return certificate(Exception(said))
    return said, TRY_AGAIN


@contextmanager
def told(server: str, doing: str) -> Iterator[None]:
    """Turn what libcurl raises into Unreachable (or BadKubeconfig for an address that is none)."""
    try:
        yield
    except (pycurl.error, OSError) as error:
        if isinstance(error, pycurl.error) and error.args[0] in _NO_URL:
            raise no_address(server) from error
        raise unreachable(server, doing, *_cause(error)) from error
