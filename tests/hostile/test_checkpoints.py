"""Checkpoint folders that lie: headers, pickles and names that ask for memory, for time, or for something to be run."""

import json
import pickle
import struct
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from console.checkpoints.completeness import CheckpointState, StoredFile, Survey, read_needed_sizes, survey_checkpoints
from console.errors import Unreadable
from tests.console.checkpoints.damages import Evil
from tests.fuzz import grammar_classes as made

OLD = time.time() - 86_400
GIB = 1 << 30
MOST = 60 << 20
"""Bytes of memory that judging may take beside what was read."""


class Lies:
    """Files of any size, of which only the beginnings and ends exist; it counts what is read of them."""

    def __init__(self, files: Mapping[str, tuple[int, bytes]], tail: bytes = b"") -> None:
        self.files = [StoredFile(path, size, OLD) for path, (size, _) in files.items()]
        self._heads = {path: head for path, (_, head) in files.items()}
        self._tail = tail
        self.read = 0

    async def read_heads(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        self.read += sum(bytes_by_path.values())
        return {path: self._heads[path][:size] for path, size in bytes_by_path.items()}

    async def read_tails(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        self.read += sum(bytes_by_path.values())
        return {path: self._tail[-size:] for path, size in bytes_by_path.items()}

    async def survey(self) -> Survey:
        return await survey_checkpoints(self.files, self, time.time(), "run")


@pytest.fixture
def _flat() -> Iterator[None]:
    """The memory that is taken meanwhile stays flat."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        assert tracemalloc.get_traced_memory()[1] - before < MOST
    finally:
        tracemalloc.stop()


def header(table: object, *, of: int | None = None) -> bytes:
    data = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(data) if of is None else of) + data


@pytest.mark.usefixtures("_flat")
@pytest.mark.parametrize(
    ("size", "head", "state", "words"),
    [
        (100 * GIB, header(b"{", of=50 * GIB), CheckpointState.UNKNOWN, "has a header of 51200 MiB, at most 8"),
        (100 * GIB, header(b"{", of=(1 << 64) - 1), CheckpointState.INCOMPLETE, "claims 18,446,744,073,709,551,623 by"),
        (9 << 20, header(b"[" * (8 << 20)), CheckpointState.UNKNOWN, "holds far more than is read here"),
        (9000, header(b'{"a":{"data_offsets":[0,' + b"9" * 4299 + b"]}}"), CheckpointState.INCOMPLETE, "a damaged"),
        (9000, header(b'{"a":{"data_offsets":[0,' + b"9" * 8000 + b"]}}"), CheckpointState.INCOMPLETE, "a damaged"),
        (900, header({"a": {"data_offsets": [0, {}]}, "b": [], "c": {"data_offsets": "xy"}}),
         CheckpointState.INCOMPLETE, "has 900 of"),
        (900, header({"a": {"data_offsets": [-5, -9]}}), CheckpointState.INCOMPLETE, "has 900 of"),
    ],
)  # fmt: skip
async def test_a_header_of_safetensors_takes_no_more_than_it_may(
    size: int, head: bytes, state: CheckpointState, words: str
) -> None:
    lies = Lies({"checkpoint-1/model.safetensors": (size, head)})
    (found,) = (await lies.survey()).checkpoints
    assert found.state is state
    assert words in found.problems[0]
    assert len(found.problems[0]) < 300
    assert lies.read <= len(head) + 8


async def test_shards_with_wild_headers_do_not_use_up_what_may_be_read_of_the_others() -> None:
    wild = header(b"x" * 100, of=7 << 20)
    files = {f"checkpoint-1/model-{number:05}-of-00100.safetensors": (500, wild) for number in range(1, 101)}
    good = header({"a": {"data_offsets": [0, 8]}})
    lies = Lies({**files, "checkpoint-2/model.safetensors": (len(good) + 8, good)})
    found = await lies.survey()
    assert [each.state for each in found.checkpoints] == [CheckpointState.INCOMPLETE, CheckpointState.COMPLETE]


@pytest.mark.usefixtures("_flat")
async def test_of_an_archive_with_a_huge_directory_only_the_ends_are_read() -> None:
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 65535, 65535, 0xFFFFFFFF, 0xFFFFFFFF, 65535)
    lies = Lies({"iter_0000001/mp_rank_00/model_optim_rng.pt": (700 * GIB, b"PK\3\4" + b"\xff" * 90)}, end)
    (found,) = (await lies.survey()).checkpoints
    assert found.state is CheckpointState.COMPLETE
    assert lies.read == 4 + 22


def metadata(path: Any, offset: Any, length: Any) -> bytes:
    return pickle.dumps(made.Metadata({}, {made.Index("1"): made.Place(path, offset, length)}), 4)


@pytest.mark.usefixtures("_flat")
@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 33) + b"x.",  # a bytearray of 8 GiB
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.",  # bytes
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"x.",  # text
        b"\x80\x02\x8b\xff\xff\xff\x7f1.",  # a number of 2 GiB
        b"(" * (16 << 20), b"]" * (16 << 20), b"\x80\x02" + b"}" * (16 << 20), b"\x80\x04" + b"\x8f" * (16 << 20),
        b"\x80\x02]" + b"]a" * (1 << 20) + b".",
        b"I" + b"9" * (1 << 20) + b"\n.",
        b"\x80\x02cos\nsystem\nX\x05\0\0\0touch\x85R.", pickle.dumps(Evil()), b"\x82\x01.", b"Pevil\n.", b"cos\n",
        pickle.dumps({"storage_data": Evil()}), b"\x80\x02r\xff\xff\xff\xffN.", b"", b"garbage",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", b"(" * 100_000 + b"t" * 100_000 + b".",
    ],
    ids=range(21),
)  # fmt: skip
def test_a_pickle_takes_no_memory_that_it_asks_for_and_runs_nothing(data: bytes) -> None:
    Path("/tmp/a4-evil-was-run").unlink(missing_ok=True)
    begun = time.process_time()
    with pytest.raises(Unreadable):
        read_needed_sizes(data)
    assert time.process_time() - begun < 5
    assert not Path("/tmp/a4-evil-was-run").exists()


@pytest.mark.parametrize(
    ("path", "offset", "length"),
    [("a", 1 << 200_000, 1), ("a", 0, -(1 << 70)), ("a" * 100_000, 0, 1), (7, 0, 1), ("a", "0", 1), ("a", 0, None)],
    ids=["huge", "negative", "long name", "no name", "text", "none"],
)
async def test_sizes_and_names_that_no_file_has_are_damage_and_repeated_nowhere(
    path: object, offset: object, length: object
) -> None:
    assert read_needed_sizes(metadata("a.distcp", 7, 9)) == {"a.distcp": 16}
    data = metadata(path, offset, length)
    lies = Lies({"step-1/.metadata": (len(data), data), "step-1/a.distcp": (9, b"PK\3\4")})
    (found,) = (await lies.survey()).checkpoints
    assert found.state is CheckpointState.INCOMPLETE
    assert len(found.problems[0]) < 300


async def test_missing_files_that_metadata_names_count_with_those_that_names_announce() -> None:
    places = {made.Index(str(at)): made.Place(f"{at}.distcp", 0, 9) for at in range(900)}
    named = pickle.dumps(made.Metadata({}, places), 4)
    lies = Lies({f"step-{at}/.metadata": (len(named), named) for at in range(4)})
    found = (await lies.survey()).checkpoints
    assert [len(each.problems) for each in found] == [900, 100, 1, 1]


NAMES = {
    "shards that announce others": lambda at: f"checkpoint-1/model{at}-00001-of-99999.safetensors",
    "ranks far apart": lambda at: f"iter_0000001/{at}/mp_rank_{at % 2 * 99_999:05}/model_optim_rng.pt",
    "a folder for each": lambda at: f"checkpoint-1/{at}/a.distcp",
    "a checkpoint for each": lambda at: f"checkpoint-{at}/{at}/model.safetensors",
    "a pointer for each": lambda at: f"{at}/latest" if at % 2 else f"{at - 1}/checkpoint-1/a.distcp",
    "deep": lambda at: f"{'iter_1/' * 60}{at}/a.distcp",
}


@pytest.mark.slow(reason="twenty thousand names, whose time is measured", fast_rows=3)
@pytest.mark.parametrize("kind", NAMES)
async def test_names_of_twenty_thousand_files_are_judged_in_seconds(kind: str) -> None:
    lies = Lies({NAMES[kind](at): (12, header(b"{}")) for at in range(20_000)})
    begun = time.process_time()
    found = await lies.survey()
    assert time.process_time() - begun < 4, "each name compared with each other one takes longer"
    assert found.checkpoints
    assert sum(len(each.problems) for each in found.checkpoints) < 100_000
