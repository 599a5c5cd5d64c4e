"""Lines of libnccl: `host:pid:thread [device] NCCL INFO text`, warnings with the place in its source."""

from __future__ import annotations

import re

from console.models.nccl_message import NcclMessage

_LEVEL = re.compile(r"(?:^|(?<=\s))NCCL (INFO|WARN|TRACE|VERSION|ERROR)(?:\s(.{0,4000})|$)")
_PLACE = re.compile(r"([\w.-]{1,253}):(\d{1,10}):(\d{1,10})")
_DEVICE = re.compile(r"\[(\d{1,4})\]")
_SOURCE = re.compile(r"[\w./-]{1,200}:\d{1,6}")


def nccl_message(line: str) -> NcclMessage | None:
    """What libnccl says in that line; None if it says nothing."""
    found = _LEVEL.search(line) if "NCCL " in line else None
    if found is None:
        return None
    words = line[: found.start()].split()[-3:]
    place = _PLACE.fullmatch(words[-1]) if words else None
    source = words.pop() if words and place is None and _SOURCE.fullmatch(words[-1]) else ""
    device = _DEVICE.fullmatch(words[-1]) if words else None
    if device:
        words.pop()
    place = _PLACE.fullmatch(words[-1]) if words else None
    return NcclMessage(
        level=found.group(1),
        text=(found.group(2) or "").strip(),
        host=place.group(1) if place else "",
        pid=int(place.group(2)) if place else None,
        thread=int(place.group(3)) if place else None,
        device=int(device.group(1)) if device else None,
        source=source,
    )
