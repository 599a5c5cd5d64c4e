"""`python -m tests.bench.bare KUBECONFIG POD ...`: prints what pods log with as little work as Python can do for it.

One connection for each pod, decrypted and written out as it comes, chunk lengths and all: what a reader of the same API
on the same machine cannot be faster than by much.
"""

import base64
import select
import socket
import ssl
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

PLACE = 1 << 17
RECORD = 1 << 14


class Connection:
    """TLS to the API server, on which one log comes."""

    def __init__(self, server: str, context: ssl.SSLContext, pod: str) -> None:
        base = urlsplit(server)
        assert base.hostname
        self.socket = socket.create_connection((base.hostname, base.port or 443))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=base.hostname)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(self._out.read())
                self._in.write(self.socket.recv(PLACE))
        path = f"/api/v1/namespaces/default/pods/{pod}/log?follow=true&timestamps=true"
        self._tls.write(f"GET {path} HTTP/1.1\r\nHost: {base.netloc}\r\n\r\n".encode())
        self.socket.sendall(self._out.read())
        self.socket.setblocking(False)

    def read(self, place: memoryview) -> list[bytes] | None:
        """What has come; None at the end."""
        size = self.socket.recv_into(place)
        self._in.write(place[:size])
        found = []
        with suppress(ssl.SSLWantReadError):
            while self._in.pending:
                found.append(self._tls.read(RECORD))
        return found if size else None


def trusted(cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    """TLS as the kubeconfig wants it, with certificates in it or beside it."""
    with tempfile.TemporaryDirectory() as folder:

        def file(of: dict[str, Any], name: str) -> str:
            if name in of:
                return str(of[name])
            path = Path(folder) / name
            path.write_bytes(base64.b64decode(of[f"{name}-data"]))
            return str(path)

        context = ssl.create_default_context(cafile=file(cluster, "certificate-authority"))
        context.load_cert_chain(file(user, "client-certificate"), file(user, "client-key"))
    return context


def main(kubeconfig: Path, pods: list[str]) -> None:
    settings = yaml.safe_load(kubeconfig.read_text())
    cluster, user = settings["clusters"][0]["cluster"], settings["users"][0]["user"]
    context = trusted(cluster, user)
    ready = select.epoll()
    connections = {}
    for pod in pods:
        connection = Connection(cluster["server"], context, pod)
        connections[connection.socket.fileno()] = connection
        ready.register(connection.socket.fileno(), select.EPOLLIN)
    place = memoryview(bytearray(PLACE))
    while connections:
        found: list[bytes] = []
        for number, _ in ready.poll():
            pieces = connections[number].read(place)
            if pieces is None:
                ready.unregister(number)
                del connections[number]
            found += pieces or ()
        sys.stdout.buffer.write(b"".join(found))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]), sys.argv[2:])
