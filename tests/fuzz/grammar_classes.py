"""Classes whose pickles have the form of torch.distributed.checkpoint's metadata."""

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Index:
    fqn: str


@dataclass
class Place:
    relative_path: str
    offset: int
    length: int


@dataclass
class Metadata:
    state_dict_metadata: dict[str, Any]
    storage_data: dict[Any, Any]
