"""A server that sends or takes as many bytes as a client asks for: what stands behind a pod's port in benchmarks.

`python -m tests.bench.bulk` prints its port. A client begins with 16 digits: so many bytes it wants, or, with a minus,
so many it is about to send; those are answered by one byte when all have come.
"""

import socket
import sys
import threading
from contextlib import suppress

PIECE = 1 << 20


def serve(connection: socket.socket) -> None:
    """One client."""
    with connection, suppress(OSError):
        wanted = int(connection.recv(16, socket.MSG_WAITALL) or b"0")
        if wanted > 0:
            send(connection, wanted)
        else:
            take(connection, -wanted)
            connection.sendall(b".")


def send(connection: socket.socket, amount: int) -> None:
    """Zeros."""
    zeros = memoryview(bytes(PIECE))
    while amount > 0:
        amount -= connection.send(zeros[: min(amount, PIECE)])


def take(connection: socket.socket, amount: int) -> None:
    """Read and forget; OSError if it ends early."""
    buffer = bytearray(PIECE)
    while amount > 0:
        got = connection.recv_into(buffer, min(amount, PIECE))
        if not got:
            raise ConnectionError("the connection ended early")
        amount -= got


def client(port: int, amount: int) -> None:
    """Get so many bytes, or send them where the amount is negative."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"%016d" % amount)
        if amount > 0:
            take(connection, amount)
        else:
            send(connection, -amount)
            take(connection, 1)


def main() -> None:
    server = socket.create_server(("127.0.0.1", 0), backlog=128)
    sys.stdout.write(f"{server.getsockname()[1]}\n")
    sys.stdout.flush()
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
