"""The base of both apps: keys are processed one at a time, and text from a cluster never acts as a command.

Textual puts each key into the queue of the widget that has the focus now. Of keys that arrive together (a paste, a slow
connection, a fast typist), those after a key that opens a page would therefore reach the old page. Handling a key may
take several messages, from the widget up to the screen and the app: the next key is sent only after these. A question
of a worker appears even later: keys typed before it wait for it, and are dropped if it does not appear.

Markup in drawn text is never run as an action, and the error that ends the app shows no values.
"""

from __future__ import annotations

import asyncio
import gc
import re
import select
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from inspect import isabstract
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import App
from textual.command import CommandPalette
from textual.css.model import RuleSet
from textual.css.query import NoMatches
from textual.css.stylesheet import Stylesheet
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import Worker, WorkerFailed, active_worker

from console.decoding import describe_fault
from screens.cli.crash_report import format_crash
from screens.sanitize import one_line
from screens.theme import DARK, LIGHT, in_256_colours
from screens.widgets.styled_text import call_after, forget_drawing

if TYPE_CHECKING:
    from textual.await_complete import AwaitComplete
    from textual.color import Color
    from textual.notifications import SeverityLevel
    from textual.screen import Screen
    from textual.theme import Theme

QUESTION_WORKERS = "actions"
"""Name of the worker group that may ask questions; workers of other groups only read."""
QUESTION_WAIT_SECONDS = 1.5  # seconds after a key within which what is typed belongs to the question it may bring
STRAY_WITHIN = 0.4
"""Seconds after a page opened without a key for it, or after the last dropped letter, in which a letter is dropped."""
_QUESTION_POLL_SECONDS = 0.01  # seconds between two looks whether it is there
KEY_EFFECT_SECONDS = 0.3
"""Maximum seconds to wait for a key's effect before the next key, in case a widget was removed with its messages."""
KEY_PAUSE_SECONDS = 0.3  # seconds after a key in which another one is likely
GC_SECONDS, FULL_GC_EVERY = 10.0, 60  # seconds between two collections, and of how many one looks through all objects
GC_EVERY_AT_REST = 3  # of how many times garbage is collected once while no key is pressed: little becomes it then
FULL_GC_SHARE, FULL_GC_REST_SECONDS = 0.002, 3.0  # of the time that one may take; and seconds after a key without one
FREEZE_SECONDS = 0.03  # of the processor for a collection, above which what it has looked through is frozen
M_ARENA_MAX = -8  # of glibc's malloc.h: how many heaps threads have
PAINT_SECONDS = 0.1  # seconds after which what a key has changed has been painted


@cache
def _glibc_function(function: str) -> Callable[..., object]:
    """A heap function of glibc; without glibc a function that does nothing."""
    from ctypes import CDLL

    return getattr(CDLL(None), function, lambda *_: None)


def use_one_heap() -> None:
    """Make all threads allocate from one heap, so that memory freed by one is used by the next."""
    _glibc_function("mallopt")(M_ARENA_MAX, 1)


class ControlCharFilter(LineFilter):
    """Removes control characters left in a line, and isolates right-to-left words; no width changes.

    Widgets make control characters visible when they format a text (`one_line`); this filter covers text they left out.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(_is_plain(segment.text) for segment in segments):
            return segments
        return [
            segment
            if segment.control or _is_plain(segment.text)
            else Segment(_RIGHT_TO_LEFT_WORDS.sub(ISOLATED, _replace_unprintable(segment.text)), segment.style)
            for segment in segments
        ]


_RIGHT_TO_LEFT_LETTERS = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]"
_RIGHT_TO_LEFT_WORDS = re.compile(rf"{_RIGHT_TO_LEFT_LETTERS}+(?:[ '\"./_-]{_RIGHT_TO_LEFT_LETTERS}+)*")
ISOLATED = "\u200e\\g<0>\u200e"
"""The replacement that puts right-to-left words, such as Hebrew names, between marks of no width.

Without them a terminal that reorders text would move the figures after such a name in front of it. The marks also work
where a line is cut, unlike Unicode isolates.
"""


def _is_plain(text: str) -> bool:
    return text.isprintable() and (text.isascii() or _RIGHT_TO_LEFT_WORDS.search(text) is None)


def _replace_unprintable(text: str) -> str:
    return "".join(
        letter
        if letter.isprintable() or (letter.isspace() and letter >= "\xa0" and letter not in "\u2028\u2029")
        else "·" * get_character_cell_size(letter)
        for letter in text
    )


def terminal_has_hung_up() -> bool:
    """Whether the terminal of standard input is gone without a signal, as that of a container whose client left."""
    poll = select.poll()
    poll.register(0, 0)
    return any(happened & select.POLLHUP for _, happened in poll.poll(0))


class TerminalDriver(LinuxDriver):
    """A terminal driver that takes the terminal back on SIGCONT only after it was handed over.

    Debuggers and service managers stop and continue a process with SIGCONT alone, without SIGTSTP: Textual would start
    two more threads each time, one of which reads keys, and leave the terminal raw at the end.
    """

    def _sigcont_application(self, *signal: object) -> None:
        if self._must_signal_resume:
            super()._sigcont_application(*signal)


def collect_cycles() -> float:
    """Run Python's garbage collector; returns the seconds of processor time that it took.

    Objects are not counted: a list of all objects would hold tuples that other threads are still filling.
    """
    started = thread_time()
    gc.collect()
    return thread_time() - started


class ParsedStyles(Stylesheet):
    """A cache of parsed style sheets by theme: the first visit of a page would take 60 ms longer without it."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._parse_cache: dict[tuple[Any, ...], list[RuleSet]] = {}  # type: ignore[assignment]  # of no bounded size
        self._kinds: set[type[Widget]] = set()

    def set_variables(self, variables: dict[str, str]) -> None:
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Load the parsed styles, as `parse` does; nothing changes if a text has a mistake."""
        self.parse()

    def parse_imported(self) -> Iterator[None]:
        """Parse the styles of newly imported widgets ahead of their first use, one widget with each iteration."""
        kinds: list[type[Widget]] = [Widget]
        while kinds:
            kind = kinds.pop()
            kinds += kind.__subclasses__()
            if kind in self._kinds or isabstract(kind):
                continue
            self._kinds.add(kind)
            for place, css, order, scope in kind.__new__(kind)._get_default_css():
                self._parse_rules(css, place, is_default_rules=True, tie_breaker=order, scope=scope)
            yield


def collect_between_keys(app: KeyOrderedApp, call_number: int) -> None:
    """Collect garbage in timer call `call_number`; without a recent key only in each GC_EVERY_AT_REST-th call."""
    if app.seconds_since_key < GC_SECONDS or call_number % GC_EVERY_AT_REST == 0:
        app.draw_between_keys("garbage", app.collect_garbage)


class KeyOrderedApp(App[int]):
    """An app that completes a key's effect before the next key, and never reads text from a cluster as markup."""

    PALETTE: ClassVar[type[CommandPalette]] = CommandPalette

    def __init__(self, **textual: Any) -> None:
        super().__init__(driver_class=TerminalDriver, **textual)
        self.stylesheet = self._styles = ParsedStyles(self.get_css_variables())
        self._text_gate = ControlCharFilter()
        self.animation_level = "none"  # a scroll that glides settles after 0.9 s
        self.add_themes(DARK, LIGHT)
        self.theme = DARK.name
        self._pressed_at = 0.0
        self._looks = 0
        self._full_gc_every = 0.0  # collections of which one looks through all objects while no page is open
        self._frozen = False  # whether anything is that may go: modules stay
        self._pending_drawings: dict[str, Callable[[], None]] = {}
        self._waiting_keys: deque[events.Key] = deque()
        """Keys not yet handled: typed while another key was handled, or kept for a question."""
        self.typing_waits = False
        """Whether typed keys wait for the effect of an earlier key, or for a question that it may bring."""
        self.no_letters_until = self._letter_dropped_at = 0.0
        """Monotonic time until which letters are dropped: the first letter of a word typed on a list opened a page."""
        self._settling: asyncio.Task[None] | None = None  # waits for both

    async def on_event(self, event: events.Event) -> None:
        """Queue command and letter keys; other events are handled by Textual."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        self._waiting_keys.append(event)
        if not self.typing_waits:
            await self._answer_next()

    async def _answer_next(self) -> None:
        """Handle the oldest waiting key; the next one follows when its effect is complete."""
        while self._waiting_keys and self._waiting_keys[0].is_printable and monotonic() < self.no_letters_until:
            self._waiting_keys.popleft()
            if monotonic() > self._letter_dropped_at + QUESTION_WAIT_SECONDS:
                self.notify("Letters typed before this page was there are not taken.", severity="warning", timeout=4)
            self._letter_dropped_at = monotonic()
            self.no_letters_until = self._letter_dropped_at + STRAY_WITHIN
        self.typing_waits = bool(self._waiting_keys and self.screen_stack)
        if not self.typing_waits:
            return
        event, screen, focused, before = self._waiting_keys.popleft(), self.screen, self.focused, set(self.workers)
        letters = self.no_letters_until
        if not (screen.is_mounted and await self._is_answered(event)):
            await super().on_event(event)
        self._pressed_at = monotonic()
        self._draw_waiting()
        begun = set(self.workers) - before  # some may end before anybody looks again
        self._settling = asyncio.create_task(self._wait_for_effect(focused or screen, screen, before, begun, letters))

    async def _wait_for_effect(
        self,
        focused: MessagePump,
        screen: Screen[Any],
        workers_before: set[Worker[Any]],
        new_workers: set[Worker[Any]],
        no_letters_until: float,
    ) -> None:
        """Wait until a key, and questions by its workers, had their effect; `no_letters_until`: from before the key."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KEY_EFFECT_SECONDS):
                await self._wait_for_parents(focused)
                while self.screen_stack and not self.screen.is_mounted:
                    await self._wait_for_parents(self.screen)
        asking = [each for each in new_workers | (set(self.workers) - workers_before) if each.group == QUESTION_WORKERS]
        late = self._pressed_at + QUESTION_WAIT_SECONDS
        while asking and self.screen_stack and self.screen is screen:
            if monotonic() > late or all(each.is_finished for each in asking):
                if self.no_letters_until == no_letters_until:  # else a page opens, and it is told that they are dropped
                    self._waiting_keys.clear()
                break
            await asyncio.sleep(_QUESTION_POLL_SECONDS)
        while asking and self.screen_stack and not self.screen.is_mounted:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_QUESTION_POLL_SECONDS)
        if self.no_letters_until != no_letters_until:  # however long its page took to come
            self.no_letters_until = monotonic() + STRAY_WITHIN
        self.call_later(self._answer_next)

    async def _wait_for_parents(self, node: MessagePump | None) -> None:
        """Wait until messages of a widget have been handled by all its parents up to the app."""
        while node is not None:
            passed = asyncio.Event()
            if node.call_later(passed.set):
                await passed.wait()
            node = node._parent

    # what changes by itself

    @property
    def is_handling_key(self) -> bool:
        return self.typing_waits or monotonic() < self._pressed_at + PAINT_SECONDS

    @property
    def seconds_since_key(self) -> float:
        """Seconds since the last key."""
        return monotonic() - self._pressed_at

    @property
    def keys_likely(self) -> bool:
        """Whether a key is being handled, or another key press is likely."""
        return self.is_handling_key or monotonic() < self._pressed_at + KEY_PAUSE_SECONDS

    def collect_garbage(self) -> None:
        """Collect reference cycles among young objects; among frozen objects too while nobody presses a key.

        The thresholds of `__main__` make Python's own collections so rare that a console open all day would grow. Used
        objects are frozen once a collection takes FREEZE_SECONDS, or half as much while a page is open: frozen objects
        are not searched, and keep alive the young ones they refer to. A full collection may cost FULL_GC_SHARE of the
        time, and is rare while a page is open, whose objects would be frozen too.
        """
        pages = sum(map(len, self._screen_stacks.values())) - len(self._screen_stacks)
        self._looks += 1
        rested = self.seconds_since_key > FULL_GC_REST_SECONDS
        if full := self._frozen and rested and self._looks >= (FULL_GC_EVERY if pages else self._full_gc_every):
            gc.unfreeze()
        seconds = collect_cycles()
        if full:
            self._looks = 0
            self._full_gc_every = min(FULL_GC_EVERY, seconds / FULL_GC_SHARE / GC_SECONDS)
        if seconds > (FREEZE_SECONDS * 1.5 if pages else FREEZE_SECONDS):
            self._frozen = True
            gc.freeze()
        _glibc_function("malloc_trim")(0)  # else what is free between blocks in use stays

    def draw_between_keys(self, label: str, draw: Callable[[], None]) -> None:
        """Run `draw`, which paints changed data, now if no key was pressed lately, else together with a key's drawing.

        The screen is then still between two keys, and changes of a key are painted once. Of calls with one `label` only
        the latest draws.
        """
        if monotonic() - self._pressed_at > KEY_PAUSE_SECONDS:
            draw()
            return
        if not self._pending_drawings:
            call_after(self, KEY_PAUSE_SECONDS, self._draw_due)
        self._pending_drawings[label] = draw

    def _draw_due(self) -> None:
        if self._pending_drawings and monotonic() - self._pressed_at > KEY_PAUSE_SECONDS:
            self._draw_waiting()
        elif self._pending_drawings:
            call_after(self, KEY_PAUSE_SECONDS, self._draw_due)

    def _draw_waiting(self) -> None:
        if not self.is_running:  # the screens are being taken away
            return
        waiting, self._pending_drawings = self._pending_drawings, {}
        for draw in waiting.values():
            draw()

    async def _is_answered(self, event: events.Key) -> bool:
        typed_in = self.focused
        if isinstance(typed_in, TextArea) or (typed_in is not None and not typed_in.is_mounted):
            return False
        if await self._check_bindings(event.key, priority=True):
            return True
        if isinstance(typed_in, Input) and typed_in.check_consume_key(event.key, event.character):
            await typed_in.on_event(event)
            return True
        return await self._check_bindings(event.key)

    async def action_switch_mode(self, mode: str) -> None:
        """Show that main screen, whatever page was open over it before, and wait until it is there."""
        with self.batch_update():  # the page over it is not shown on the way
            await self.switch_mode(mode)
            await self.close_pages()

    async def close_pages(self) -> None:
        """Close the pages over the main screen that is open."""
        while len(self.screen_stack) > 1:
            await self.pop_screen()

    def pop_screen(self) -> AwaitComplete:
        """Close the page in front; its workers are cancelled first, as their results could not be shown."""
        going, own = set(self.screen.walk_children(with_self=True)), active_worker.get(None)
        for worker in self.workers:
            if worker.node in going and worker is not own:
                worker.cancel()
        for each in going:
            forget_drawing(each)
        return super().pop_screen()

    async def action_command_palette(self) -> None:  # type: ignore[override]  # Textual awaits what actions return
        if not CommandPalette.is_open(cast("Any", self)):  # Textual asks for an app of any result so
            palette = self.PALETTE(id="--command-palette")
            await self.push_screen(palette)
            palette.set_focus(palette.query_one(Input))

    # what it shows

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """This app's text styles, for themes that do not define them."""
        theme = DARK if self.current_theme.dark else LIGHT
        return self.available_themes.get(theme.name, theme).variables

    def add_themes(self, *themes: Theme) -> None:
        for theme in themes:
            self.register_theme(in_256_colours(theme) if self.console.color_system == "256" else theme)

    def action_theme(self) -> None:
        self.theme = (LIGHT if self.current_theme.dark else DARK).name

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._text_gate]

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a toast; its text may come from a cluster, so it is sanitized and never parsed as markup."""
        clean = "\n".join(map(one_line, message.split("\n")))
        super().notify(clean, title=one_line(title), severity=severity, timeout=timeout, markup=False)

    def panic(self, *renderables: Any) -> None:
        """End the app with this program's crash report: libraries' reports show source lines with variable values."""
        if (error := sys.exc_info()[1] or self._exception) is not None:
            renderables = (Text(format_crash(error)),)
        super().panic(*renderables)

    def _handle_exception(self, error: Exception) -> None:
        """Keep running when a worker fails: the failure is shown now, and reported when the app ends."""
        if not isinstance(error, WorkerFailed) or not isinstance(error.error, Exception):
            super()._handle_exception(error)
            return
        if isinstance(error.error, NoMatches) and active_worker.get().node._pruning:
            return  # its page was being removed: there is nowhere to show anything, and nothing to report
        if self._exception is None:  # a test that drives the app raises it
            self._exception = error.error
            self._exception_event.set()
            self._return_code = 1
            self._exit_renderables.append(Text(format_crash(error.error)))
        self.notify(
            f"A part of the console failed ({describe_fault(error.error)}). The rest goes on; quit for the report.",
            severity="error",
        )

    def _fatal_error(self) -> None:
        # Textual's own prints every variable of every frame.
        self.bell()
        error = sys.exc_info()[1] or self._exception
        self._exit_renderables.append(Text(format_crash(error) if error is not None else "An unexpected error."))
        self._close_messages_no_wait()
