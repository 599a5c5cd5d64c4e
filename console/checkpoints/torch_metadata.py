"""The `.metadata` of a checkpoint written by torch.distributed.checkpoint (DCP): which bytes each file has to hold.

It is a pickle. It is read without torch and without running anything of it: whatever class or function it names becomes
a `_Inert` object, which only keeps what it is given.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from console.errors import Unreadable

LONGEST = 16 << 20  # bytes of the largest that is read: that of a model of some 100,000 shards has 10 MB


class _Inert:
    """Stands for every object of the pickle."""

    def __new__(cls, *_: object) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *_: object) -> None:
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        """As of an OrderedDict."""

    def append(self, value: object) -> None:
        """As of a subclass of list."""

    def get(self, name: str) -> object:
        return self.state.get(name) if isinstance(self.state, dict) else None


class _Unpickler(pickle._Unpickler):  # in Python: the one in C reserves as much memory as the pickle tells it to
    def find_class(self, module: str, name: str) -> Any:
        del module, name
        return _Inert


def needed_sizes(data: bytes) -> dict[str, int]:
    """Bytes that each file must have at least, by its path in the folder. Raises Unreadable."""
    try:
        whole = _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle may raise anything
        raise Unreadable("It is damaged or cut off.") from error
    places = whole.get("storage_data") if isinstance(whole, _Inert) else None
    if not isinstance(places, dict) or not places:
        raise Unreadable("It names no files.")
    sizes: dict[str, int] = {}
    for place in places.values():
        path, offset, length = (place.get(name) if isinstance(place, _Inert) else None for name in _FIELDS)
        if not (isinstance(path, str) and isinstance(offset, int) and isinstance(length, int)):
            raise Unreadable("It names no files in a form that is known here.")
        sizes[path] = max(sizes.get(path, 0), offset + length)
    return sizes


_FIELDS = ("relative_path", "offset", "length")
