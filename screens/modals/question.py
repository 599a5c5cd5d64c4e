"""What every dialog is: it is answered once."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType


class Question(ModalScreen[ScreenResultType]):
    """A dialog, which takes only its first answer: a second one on its way would close the page behind it."""

    _dismissed = False

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close it with this answer."""
        if self._dismissed:
            return AwaitComplete()
        self._dismissed = True
        return super().dismiss(result)
