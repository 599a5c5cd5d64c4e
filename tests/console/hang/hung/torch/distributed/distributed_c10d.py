"""A stand-in for torch.distributed: a sum over sockets that really waits for every rank."""

from __future__ import annotations

import os
import socket


class Group:
    """All ranks, joined in a star around rank 0."""

    def __init__(self, port: int) -> None:
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.others: list[socket.socket] = []
        if self.rank == 0:
            with socket.create_server(("127.0.0.1", port)) as door:
                self.others = [door.accept()[0] for _ in range(self.world - 1)]
        else:
            self.others = [_connected(port)]


def _connected(port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            continue


def all_reduce(group: Group, value: int) -> int:
    if group.rank == 0:
        total = value + sum(int(other.recv(20)) for other in group.others)
        for other in group.others:
            other.sendall(f"{total:20}".encode())
        return total
    group.others[0].sendall(f"{value:20}".encode())
    return int(group.others[0].recv(20))
