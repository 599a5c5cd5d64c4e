"""Reads a pickle as plain lists: nothing is imported, called, hashed or compared, so time and memory stay proportional.

A pickle is a program. Python's own unpickler hashes dict keys, and hashing tuples nested in tuples, two bytes a level,
doubles its time with each level and blocks all other threads. Here a tuple, list or set becomes a list, a dict a list
of keys and values, and an object only its state. Nothing walks through nested lists, so their depth is harmless. The
opcodes that protocols 2 to 5 write for data without buffers are supported.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from struct import (
    Struct,
    error as StructError,  # noqa: N812 - it is so called there
)
from typing import Any

from console.errors import Unreadable

MAX_MEMORY_BYTES = 240 << 20  # bytes that the objects may take; those of 100,000 shards, 15 MB, take 166 MiB
_TEXT_BYTES, _NUMBER_BYTES, _OBJECT_BYTES, _LIST_BYTES, _REFERENCE_BYTES = 64, 40, 56, 88, 8  # of memory, for each
_INT2, _INT4, _UINT4, _UINT8, _FLOAT = Struct("<H"), Struct("<i"), Struct("<I"), Struct("<Q"), Struct(">d")
_TEXT_OPCODES = {pickle.SHORT_BINUNICODE[0]: 1, pickle.BINUNICODE[0]: 4, pickle.BINUNICODE8[0]: 8}
_BYTES_OPCODES = {pickle.SHORT_BINBYTES[0]: 1, pickle.BINBYTES[0]: 4, pickle.BINBYTES8[0]: 8}
_TUPLE_OPCODES = {pickle.TUPLE1[0]: 1, pickle.TUPLE2[0]: 2, pickle.TUPLE3[0]: 3}
_CONTAINER_OPCODES = pickle.MARK, pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.EMPTY_SET
_CONSTANT_OPCODES = {pickle.NONE[0]: None, pickle.NEWTRUE[0]: True, pickle.NEWFALSE[0]: False}
_CALL_OPCODES = {pickle.REDUCE[0]: 2, pickle.NEWOBJ[0]: 2, pickle.NEWOBJ_EX[0]: 3}
_PUT_OPCODES = {pickle.BINPUT[0]: 1, pickle.LONG_BINPUT[0]: 4}
_GET_OPCODES = {pickle.BINGET[0]: 1, pickle.LONG_BINGET[0]: 4}


class PickledDict(list[Any]):
    """A pickled dict as a list of alternating keys and values."""

    __slots__ = ()

    def find(self, name: str) -> Any:
        """The value of a text key, the last one if it comes twice; None if the key is missing."""
        places = range(len(self) - 2, -1, -2)
        return next((self[at + 1] for at in places if isinstance(self[at], str) and self[at] == name), None)

    def values(self) -> Iterator[Any]:
        return (self[at] for at in range(1, len(self), 2))


class UnbuiltObject:
    """A pickled object or function result that is not built: only its state is kept."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: Any = None

    def find(self, name: str) -> Any:
        """The attribute of that name; None if there is none."""
        return self.state.find(name) if isinstance(self.state, PickledDict) else None


def read_pickle(data: bytes) -> Any:
    """The data in a pickle. Raises Unreadable if it is damaged or not plain data."""
    if sum(data.count(each) for each in _CONTAINER_OPCODES) > 1000 + len(data) // 8:  # in real metadata 1 in 30
        raise Unreadable("It is damaged: it consists of empty lists.")
    try:
        return _read_opcodes(data)
    except (IndexError, ValueError, StructError) as error:
        raise Unreadable("It is damaged or cut off.") from error


def _read_opcodes(data: bytes) -> Any:  # noqa: C901, PLR0912, PLR0915 - one loop: a call for each code would double its time
    stack: list[Any] = []
    marks: list[int] = []
    memo: list[Any] = []
    at, left = 0, MAX_MEMORY_BYTES
    while True:
        code = data[at]
        at += 1
        if code == 0x94:  # MEMOIZE
            memo.append(stack[-1])
            left -= _REFERENCE_BYTES
        elif size := _GET_OPCODES.get(code, 0):
            stack.append(memo[int.from_bytes(data[at : at + size], "little")])
            at += size
            left -= _REFERENCE_BYTES
        elif size := _TEXT_OPCODES.get(code, 0):
            begin = at + size
            at = begin + int.from_bytes(data[at:begin], "little")
            text = data[begin:at].decode("utf-8", "surrogatepass")
            stack.append(text)
            left -= _TEXT_BYTES + len(text) * (1 if text.isascii() else 4)
        elif code == 0x4B:  # BININT1
            stack.append(data[at])
            at += 1
            left -= _REFERENCE_BYTES
        elif code == 0x28:  # MARK
            marks.append(len(stack))
            left -= _NUMBER_BYTES
        elif size := _TUPLE_OPCODES.get(code, 0):
            stack[-size:] = [[stack[-size], *stack[len(stack) - size + 1 :]]]
            left -= _LIST_BYTES
        elif size := _CALL_OPCODES.get(code, 0):
            stack[-size]
            stack[-size:] = [UnbuiltObject()]
            left -= _OBJECT_BYTES
        elif code == 0x29:  # EMPTY_TUPLE
            stack.append(())
            left -= _REFERENCE_BYTES
        elif code == 0x62:  # BUILD
            state = stack.pop()
            if isinstance(stack[-1], UnbuiltObject):
                stack[-1].state = state
        elif code == 0x7D:  # EMPTY_DICT
            stack.append(PickledDict())
            left -= _LIST_BYTES
        elif code in b"ue\x90sa":  # SETITEMS, APPENDS, ADDITEMS; SETITEM, APPEND
            begin = marks.pop() if code in b"ue\x90" else len(stack) - (2 if code == 0x73 else 1)
            into = stack[begin - 1] if begin > 0 else stack[len(stack)]
            added = stack[begin:]
            del stack[begin:]
            if code in b"us" and len(added) % 2:
                raise ValueError("a key without a value")
            if isinstance(into, PickledDict) == (code in b"us") and isinstance(into, list):
                into += added
            left += _NUMBER_BYTES * (code in b"ue\x90") - _REFERENCE_BYTES * len(added)
        elif code == 0x4D:  # BININT2
            stack.append(_INT2.unpack_from(data, at)[0])
            at += 2
            left -= _NUMBER_BYTES
        elif code == 0x4A:  # BININT
            stack.append(_INT4.unpack_from(data, at)[0])
            at += 4
            left -= _NUMBER_BYTES
        elif code == 0x8A:  # LONG1
            begin, at = at + 1, at + 1 + data[at]
            stack.append(int.from_bytes(data[begin:at], "little", signed=True))
            left -= _NUMBER_BYTES + 255
        elif size := _PUT_OPCODES.get(code, 0):
            place = int.from_bytes(data[at : at + size], "little")
            at += size
            if place > len(memo) + len(data):
                raise ValueError("a place that no pickle of this size has")
            left -= _REFERENCE_BYTES * (1 + max(0, place - len(memo)))
            if left > 0:
                memo += [None] * (place + 1 - len(memo))
                memo[place] = stack[-1]
        elif code in _CONSTANT_OPCODES:
            stack.append(_CONSTANT_OPCODES[code])
            left -= _REFERENCE_BYTES
        elif code in b"]\x8f":  # EMPTY_LIST, EMPTY_SET
            stack.append([])
            left -= _LIST_BYTES
        elif code in b"tld\x91":  # TUPLE, LIST, DICT, FROZENSET
            begin = marks.pop()
            made = stack[begin:]
            stack[begin:] = [PickledDict(made) if code == 0x64 else made]
            left += _NUMBER_BYTES - _LIST_BYTES - _REFERENCE_BYTES * len(made)
        elif code == 0x93:  # STACK_GLOBAL
            stack[-2:] = [UnbuiltObject()]
            left -= _OBJECT_BYTES
        elif code == 0x63:  # GLOBAL
            at = data.index(b"\n", data.index(b"\n", at) + 1) + 1
            stack.append(UnbuiltObject())
            left -= _OBJECT_BYTES
        elif code == 0x47:  # BINFLOAT
            stack.append(_FLOAT.unpack_from(data, at)[0])
            at += 8
            left -= _NUMBER_BYTES
        elif size := _BYTES_OPCODES.get(code, 0):
            begin = at + size
            at = begin + int.from_bytes(data[at:begin], "little")
            stack.append(data[begin:at])
            left -= _TEXT_BYTES + min(at - begin, len(data))
        elif code in b"01":  # POP, POP_MARK
            del stack[(marks.pop() if code == 0x31 else len(stack) - 1) :]
        elif code == 0x95:  # FRAME
            at += 8
        elif code == 0x80:  # PROTO
            at += 1
        elif code == 0x2E:  # STOP
            return stack.pop()
        else:
            raise ValueError("no code of data")
        if left < 0:
            raise Unreadable("It is damaged: it would take far more memory than such a file does.")
