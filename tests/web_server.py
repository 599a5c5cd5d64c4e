"""A web server of this machine that keeps what is posted to it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def server(status: int = 200) -> Iterator[tuple[str, list[tuple[str, str, Any]]]]:
    """Host and port of a web server, and what it got: path, login, body."""
    got: list[tuple[str, str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers.get("Authorization", ""), json.loads(body)))
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=web.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{web.server_port}", got
    finally:
        web.shutdown()
        web.server_close()
