"""Widgets and screens of which a part is left to those made from them: Textual's metaclass and that of `abc` in one."""

from __future__ import annotations

from abc import ABCMeta

from textual.message_pump import _MessagePumpMeta


class Abstract(_MessagePumpMeta, ABCMeta):
    """The metaclass of a widget with abstract methods: as long as one is missing, none of its kind can be made."""
