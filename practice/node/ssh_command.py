"""The program `ssh` of a pod: runs a command in another pod of the practice cluster; imports nothing of ours.

`python ssh_command.py SOCKET [OPTION ...] HOST [COMMAND ...]`; SOCKET is where the practice cluster listens.
"""

from __future__ import annotations

import getopt
import json
import os
import socket
import sys
from pathlib import Path
from typing import NoReturn

_OPTIONS = "46AaCfGgKkMNnqsTtVvXxYyb:c:D:E:e:F:I:i:J:L:l:m:O:o:p:Q:R:S:W:w:"
_FAILED = 255


def parse_words(arguments: list[str]) -> tuple[str, str, list[str]]:
    """(host to connect to, key file, command) of ssh's arguments. Raises GetoptError for an unknown option."""
    options, (host, *command) = getopt.getopt(arguments, _OPTIONS)
    named = [value.partition("=")[2] for flag, value in options if flag == "-o" and value.startswith("HostName=")]
    keys = [value for flag, value in options if flag == "-i"]
    return [host, *named][-1].rpartition("@")[2], [*keys, "~/.ssh/id_pods"][0], command


def main(words: list[str]) -> NoReturn:
    """Replace this process by the command in the other pod; exits with 255 if that pod refuses the login."""
    path, *arguments = words
    host, key, command = parse_words(arguments)
    file = Path(key).expanduser()
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        knock = {"host": host, "key": file.read_text() if file.is_file() else ""}
        door.sendall(json.dumps(knock).encode() + b"\n")
        with door.makefile("rb") as answer:
            place = json.loads(answer.readline())
    if place["why"]:
        sys.stderr.write(f"{place['why']}\n")
        sys.exit(_FAILED)
    os.chdir(place["folder"])
    argv = ["sh", "-c", " ".join(command)] if command else ["bash"]
    os.execvpe(argv[0], argv, place["env"])


if __name__ == "__main__":
    main(sys.argv[1:])
