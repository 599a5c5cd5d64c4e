"""The one place where bytes from pods and buckets become objects: limited in bytes, items, depth, range and time.

JSON is decoded into schemas whose numbers are finite and within bounds, and only if its objects would take little
memory. What is computed from them takes time proportional to the bytes. Decoding runs in a thread that ends after some
seconds, or when its result is no longer needed: CPython raises an asynchronous exception in it. Since that happens only
between two bytecode steps, no single step, such as the hash of nested tuples, may take long.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from console.errors import ConsoleError, Unreadable

T = TypeVar("T")

DECODING_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)  # what reading JSON may raise
MAX_DECODING_SECONDS = 20.0  # after which a decoder is given up; what a peer sends takes one or two on an idle machine


def check_json_cost(data: bytes, content: str) -> None:
    """Raise Unreadable if decoding the JSON would take too much memory; the sentence begins with `content`."""
    from rankscope import UnreadableAnswer, check_json_cost as check_answer_cost  # 1 ms, for which no list waits

    try:
        check_answer_cost(data, content)
    except UnreadableAnswer as error:
        raise Unreadable(error.message) from error


class _DecodingAbandoned(BaseException):
    """Raised inside a decoder's thread to end it once nobody waits for its result."""


async def decode_apart(content: str, decode: Callable[[], T], seconds: float = MAX_DECODING_SECONDS) -> T:
    """The result of `decode`, run in a thread with a time limit; if it fails, Unreadable that begins with `content`."""
    from rankscope import UnreadableAnswer

    apart = _DecoderThread(decode, asyncio.get_running_loop())
    try:
        async with asyncio.timeout(seconds):
            return await apart.result
    except TimeoutError:
        raise Unreadable(f"{content} cannot be read within {seconds:.0f} s.") from None
    except ConsoleError:
        raise
    except UnreadableAnswer as error:
        raise Unreadable(str(error)) from error
    except Exception as error:
        raise Unreadable(f"{content} cannot be read ({describe_fault(error)}).", "Please report this fault.") from error
    finally:
        apart.give_up()


class _DecoderThread(Generic[T]):
    """Runs a decoder in a daemon thread, which does not delay the program's exit."""

    def __init__(self, decode: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.result: asyncio.Future[T] = loop.create_future()
        self._decode, self._loop = decode, loop
        self._lock, self._is_over = threading.Lock(), False
        self._thread = threading.Thread(target=self._decode_next, name="decoder", daemon=True)
        self._thread.start()

    def _decode_next(self) -> None:
        try:
            try:
                result = self._decode()
            except Exception as error:  # noqa: BLE001 - passed on
                found: Callable[[], None] = partial(self.result.set_exception, error)
            else:
                found = partial(self.result.set_result, result)
            with self._lock:
                self._is_over = True
            self._loop.call_soon_threadsafe(self._set_result, found)
        except (_DecodingAbandoned, RuntimeError):
            return  # nobody waits, or the loop has ended

    def _set_result(self, found: Callable[[], None]) -> None:
        if not self.result.done():
            found()

    def give_up(self) -> None:
        with self._lock:
            if not self._is_over:
                import ctypes

                number = ctypes.c_ulong(self._thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(_DecodingAbandoned))


def describe_fault(error: BaseException) -> str:
    """The type of an error and the line that raised it, without any value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" in {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}{where}"
