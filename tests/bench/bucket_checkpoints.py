"""`a4 checkpoints gs://…` on 10,000 safetensors, beside Google's own client, which reads the same bytes in threads.

The server is a process of its own; how much of the time it takes itself is printed.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.bench.bucket_server import BUCKET
from tests.bench.consoles import A4
from tests.bench.rows import Bound, Ratio

OBJECTS = 10_000
LATENCIES = 0.0, 0.02
"""Seconds that the server lets each answer wait: none, and about as Cloud Storage does in its own region."""
THREADS = 32


@contextmanager
def served(latency: float, used: dict[str, Any]) -> Iterator[str]:
    """The address of a server of that bucket; afterwards `used` says what it took."""
    argv = [sys.executable, "-m", "tests.bench.bucket_server", str(OBJECTS), str(latency)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        used.update(json.loads(process.communicate()[0]))


def write_login(folder: Path, address: str) -> Path:
    """Credentials of a service account whose tokens that server gives."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "project_id": "bench", "private_key_id": "1", "private_key": key.decode(),
               "client_email": "bench@bench.iam.gserviceaccount.com", "token_uri": f"{address}/token"}  # fmt: skip
    place = folder / "login.json"
    place.write_text(json.dumps(account))
    return place


def read_with_googles_client() -> None:
    """Lists the bucket and reads the beginning of each object, as one does it with Google's library alone."""
    from google.cloud import storage

    client = storage.Client("bench")
    left = deque(client.list_blobs(BUCKET, prefix="run/"))

    def work(_: int) -> None:
        while left:
            try:
                blob = left.popleft()
            except IndexError:
                return
            blob.download_as_bytes(start=0, end=4095, raw_download=True, checksum=None)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(work, range(THREADS)))


def timed(argv: list[str], environment: dict[str, str]) -> float:
    begun = perf_counter()
    done = subprocess.run(argv, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return perf_counter() - begun


def main(say: Callable[[str], None], ratio: Ratio, bound: Bound) -> bool:
    good = True
    for latency in LATENCIES:
        seconds: list[float] = []
        for argv in (
            [str(A4), "checkpoints", f"gs://{BUCKET}/run", "--json"],
            [sys.executable, "-m", "tests.bench.bucket_checkpoints"],
        ):
            used: dict[str, Any] = {}
            with tempfile.TemporaryDirectory() as folder, served(latency, used) as address:
                environment = {
                    **os.environ, "STORAGE_EMULATOR_HOST": address, "XDG_STATE_HOME": folder,
                    "XDG_CONFIG_HOME": folder,
                    "GOOGLE_APPLICATION_CREDENTIALS": str(write_login(Path(folder), address)),
                }  # fmt: skip
                environment.pop("PYTHONDONTWRITEBYTECODE", None)
                seconds.append(timed(argv, environment))
            say(f"  the server: {used['seconds']:.2f} s of processor time for {used['requests']:,} requests")
        say(f"\n{OBJECTS:,} objects, each answer after {1000 * latency:.0f} ms     a4     Google     ratio   bound")
        good &= ratio("headers and verdicts (s)", seconds[0], seconds[1], 0.5)
        good &= bound("a4 checkpoints (s)", seconds[0], 5.0)
    return good


if __name__ == "__main__":
    read_with_googles_client()
