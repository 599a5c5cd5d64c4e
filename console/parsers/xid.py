"""Faults of GPUs in a kernel's log: lines of Xid, and of SXid for the switches between GPUs."""

from __future__ import annotations

import re

from console.models.gpu import Xid

_XID = re.compile(r"(S?)Xid \((?:PCI:)?([0-9A-Fa-f:.]{1,40})\)\s?: (\d{1,9})(?:, (.{0,2000}))?")
_PID = re.compile(r"pid='?(\d{1,10}|<unknown>|)'?(?:, |$)")
_NAME = re.compile(r"name=([^,]{0,300})(?:, |$)")


def xid(line: str) -> Xid | None:
    """The fault in that line, None if there is none."""
    found = _XID.search(line) if "Xid" in line else None
    if found is None:
        return None
    switch, bus, number, text = found.group(1), found.group(2), int(found.group(3)), (found.group(4) or "").strip()
    pid = _PID.match(text)
    if pid:
        text = text[pid.end() :]
    name = _NAME.match(text)
    if name:
        text = text[name.end() :]
    return Xid(
        number=number,
        bus=bus,
        switch=bool(switch),
        pid=int(pid.group(1)) if pid and pid.group(1).isdecimal() else None,
        process=name.group(1).strip() if name and name.group(1).strip() != "<unknown>" else "",
        text=text.strip(),
    )
