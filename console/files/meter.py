"""Counts a copy's bytes and files, and tells whoever listens; and tries again what broke off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from console.errors import CopyFailed, NotAllowed, NotLoggedIn, Refused, Unreachable
from console.files.local import in_words
from console.models.copying import CopyProgress

Listener = Callable[[CopyProgress], None]
TRIES = 5
"""Attempts without a byte of progress after which a copy gives up."""
_PAUSE = 0.5
"""Seconds before the second attempt; doubled each time."""
AGAIN = "Run the same command again: it goes on where this one ended."


class Meter:
    """How far one copy is."""

    def __init__(self, listener: Listener, *, pause: float = _PAUSE) -> None:
        self._listener = listener
        self._pause = pause
        self.done = 0
        self.landed = 0
        """The same, as far as it is known to have arrived."""
        self.total = 0
        self.files = 0
        self.all_files = 0
        self.resumed = 0
        self.now = ""

    def tell(self, now: str | None = None) -> None:
        """Say how far it is."""
        self.now = self.now if now is None else now
        self._listener(CopyProgress(self.done, self.total, self.files, self.all_files, self.now, self.resumed))

    def add(self, size: int) -> None:
        """So many bytes more are there."""
        self.landed += size
        self.sent(size)

    def sent(self, size: int) -> None:
        """So many bytes more are on their way."""
        self.done += size
        self.tell()

    def there(self, size: int, *, whole: bool) -> None:
        """So many bytes were there before this copy began."""
        self.done += size
        self.resumed += size
        self.files += whole
        self.tell()

    def finished(self) -> None:
        """One more file is there."""
        self.files += 1
        self.tell()

    async def insist(self, what: str, attempt: Callable[[], Awaitable[bool]]) -> None:
        """Call until it says that it is done, again after each break, as long as bytes keep coming.

        CopyFailed, with how far it came, if they do not, or the pod is gone.
        """
        fruitless = 0
        while True:
            before = self.landed
            try:
                if await attempt():
                    return
                error: Unreachable | None = None
            except Unreachable as broken:
                error = broken
            except Refused as gone:
                if not gone.status or isinstance(gone, NotAllowed | NotLoggedIn):
                    raise  # said of one file, or of the account
                raise CopyFailed(f"{what}: {self._came()} {gone.message}", AGAIN) from gone
            fruitless = 0 if self.landed > before else fruitless + 1
            if fruitless >= TRIES:
                why = error.message if error else "The other side sent nothing more."
                raise CopyFailed(f"{what} broke off: {self._came()} {why}", AGAIN) from error
            await asyncio.sleep(self._pause * 2**fruitless if fruitless else 0)

    def _came(self) -> str:
        return f"{in_words(self.done)} of {in_words(self.total)} are there."
