"""Formats runs of styled text into one line of a widget, in the named styles of the theme."""

from __future__ import annotations

import asyncio
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from rich.cells import cell_len, chop_cells, get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.containers import Container
from textual.dom import DOMNode
from textual.geometry import Region, Size
from textual.message_pump import MessagePump, _MessagePumpMeta
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from screens.sanitize import one_line
from screens.theme import BOLD_STYLES, DARK
from screens.wording import Span, short_node

StyleOf = Callable[[str], Style]


def call_after(pump: MessagePump, seconds: float, function: Callable[[], object]) -> asyncio.TimerHandle:
    """Call a function after `seconds`, as a message of a page or widget.

    A Textual timer never fires if the machine is suspended just as the timer starts.
    """
    return asyncio.get_running_loop().call_later(seconds, pump.call_next, function)


def fit_text(text: str, width: int) -> str:
    """The text padded or cut (with an ellipsis) to exactly that many columns."""
    if text.isascii() and text.isprintable():
        length = len(text)
        if length <= width:
            return text + " " * (width - length)
        return text[: width - 1] + "…" if width > 0 else ""
    text = one_line(text)
    length = cell_len(text)
    if length <= width:
        return text + " " * (width - length)
    if width <= 0:
        return ""
    head = cut_text(text, width - 1)
    return f"{head}…" + " " * (width - 1 - cell_len(head))


def cut_text(text: str, width: int) -> str:
    """The beginning of a sanitized text, cut to that many columns."""
    if text.isascii():
        return text[: max(width, 0)]
    for at, letter in enumerate(text):
        width -= get_character_cell_size(letter)
        if width < 0:
            return text[:at]
    return text


_PHRASE_END = re.compile(r"(?=; |, |\. | \(|  | · | (?:after|since|because|until|while|or) )")
OPEN_WORD = re.compile(
    r"[\d.,:/]*\d|.*[(].*|[-+=×]|an?|after|and|are|as|at|because|but|by|for|from|has|in|is|its|no|not|of|on|or|since|than|"
    r"that|the|this|to|until|was|which|while|with"
)
"""A word that must not end a cut sentence: a number, whose unit follows, an open bracket, or a word such as "the"."""


def phrase_ends(text: str) -> list[int]:
    """The offsets at which a sentence may be cut between phrases, never inside brackets."""
    return [
        at
        for found in _PHRASE_END.finditer(text)
        if (at := found.start()) and text.count("(", 0, at) == text.count(")", 0, at)
    ]


def cut_sentence(spans: Iterable[Span], width: int) -> list[Span]:
    """The part of a text that fits: whole phrases, else whole words; numbers keep all digits and their unit."""
    clean = list(spans)
    whole = "".join([run.text for run in clean])
    text = one_line(whole)
    if text != whole:
        clean = [Span(one_line(run.text), run.style) for run in clean]
        text = "".join([run.text for run in clean])
    if cell_len(text) <= width:
        return clean
    end = max((at for at in phrase_ends(text) if cell_len(text[:at]) <= width), default=0)
    if 3 * end < width:
        words = cut_text(f"{text} ", width).split(" ")[:-1]
        after, first = text[len(" ".join([*words, ""])) :], " ".join(words[:1])
        while words and (after[:1].isdigit() or OPEN_WORD.fullmatch(words[-1])):
            after = words.pop()
        end = max(end, len((" ".join(words) or first).rstrip(":,;")))
    if not end and text[:1].isalpha():
        return [Span(f"{cut_text(text, width - 1)}…", clean[0].style)]  # one word, which is no number
    mark = "" if cell_len(text[:end]) > width - 2 else " …" if end else "…"
    return [*_beginning_of(clean, end), *([Span(mark, "dim")] if mark else [])]


def _beginning_of(spans: Iterable[Span], letters: int) -> list[Span]:
    kept: list[Span] = []
    for text, style in spans:
        kept += [Span(text[:letters], style)] if letters > 0 else []
        letters -= len(text)
    return kept


def fit_spans(
    spans: Iterable[Span], width: int, style_of: StyleOf, *, right: bool = False, blanks_after: int = 0
) -> list[Segment]:
    """Spans of text padded or cut to an exact number of columns."""
    segments: list[Segment] = []
    left = width
    for text, style in spans:
        if left <= 0:
            break
        clean = text if text.isascii() and text.isprintable() else one_line(text)
        length = len(clean) if clean.isascii() else cell_len(clean)
        if length > left:
            clean, length = fit_text(clean, left), left
        if clean:
            segments.append(Segment(clean, style_of(style)))
        left -= length
    if not segments:
        return [Segment(" " * (left + blanks_after), style_of(""))] if left + blanks_after > 0 else []
    if right and left > 0:
        segments[0] = Segment(" " * left + segments[0].text, segments[0].style)
        left = 0
    if left + blanks_after > 0:
        segments[-1] = Segment(segments[-1].text + " " * (left + blanks_after), segments[-1].style)
    return segments


def cut_name(spans: list[Span], width: int, *, node: bool) -> list[Span]:
    """A name shortened in the middle to `width` columns, since its end distinguishes it from other names."""
    if len(spans) != 1 or cell_len(spans[0].text) <= width or width < 2:
        return spans
    text = one_line(spans[0].text)
    if node:
        text = short_node(text)
        if cell_len(text) <= width:
            return [Span(text, spans[0].style)]
    tail = cut_text(text[::-1], max(1, (width - 1) * 3 // 5))[::-1]
    return [Span(f"{cut_text(text, width - 1 - cell_len(tail))}…{tail}", spans[0].style)]


def merge_segments(segments: Iterable[Segment]) -> list[Segment]:
    """A line in fewer segments: equal styles are merged, and blanks join the text before them."""
    found: list[Segment] = []
    for segment in segments:
        own, before = segment.style, found[-1].style if found else None
        blank = segment.text.isspace() and own is not None and before is not None and own.bgcolor == before.bgcolor
        if found and (own == before or blank):
            found[-1] = Segment(found[-1].text + segment.text, before)
        else:
            found.append(segment)
    return found


def changed_columns(old_strip: Strip, new_strip: Strip) -> tuple[int, int]:
    """The range of columns that differ, as (first, end); equal numbers if none do."""
    olds, news = list(old_strip), list(new_strip)
    left = right = 0
    while olds and news and olds[0] == news[0]:
        left += news.pop(0).cell_length
        olds.pop(0)
    while olds and news and olds[-1] == news[-1]:
        right += news.pop().cell_length
        olds.pop()
    if not olds and not news:
        return left, left
    return left, max(left, new_strip.cell_length - right)


def line(spans: Iterable[Span], width: int, style_of: StyleOf) -> Strip:
    return Strip(fit_spans(spans, width, style_of), width)


_NO_UNIT = r"(?:a|and|are|as|at|by|for|from|in|is|of|on|or|since|than|that|the|to|until|was|when|which|while|with)\b"
_HELD_BLANK = re.compile(
    rf"(?:(?<![^\s(])[-+~<]?[\d.,/]*\d(?= [%°]| (?!{_NO_UNIT})[^\W\d_])|(?<=\d )[hd](?= \d)"
    r"|(?<=\d s)(?= a step)|(?<=\d s a)(?= step)|(?:(?<!\S)[-+=<]|\b(?:rank|pod|GPU|step|attempt|test|of))(?= \d)) "
)
"""A blank at which no line may be broken: within a duration, or between a figure and its unit, sign or name."""
HELD = "\x1f"  # stands for such a blank while a text is split, since no sanitized text contains it


def join_numbers_and_units(text: str) -> str:
    return _HELD_BLANK.sub(lambda found: f"{found[0][:-1]}{HELD}", text)


def wrap_text(text: str, width: int) -> list[str]:
    """The text in lines of at most that many columns, broken at spaces if possible."""
    lines: list[str] = []
    rest = ""
    for word in join_numbers_and_units(one_line(text)).split(" "):
        word = word.replace(HELD, " ")
        longer = f"{rest} {word}" if rest else word
        if cell_len(longer) <= width:
            rest = longer
            continue
        if rest:
            lines.append(rest)
        while cell_len(word) > width > 0:
            head = cut_text(word, width)
            lines.append(head or "·")  # a letter that is wider than the line
            word = word[len(head) or 1 :]
        rest = word
    if rest or not lines:
        lines.append(rest)
    return lines


def fold_at_spaces(text: str, width: int) -> Sequence[str]:
    """A line in pieces of at most that many columns, broken after spaces where possible."""
    pieces: list[str] = []
    while width > 0 and cell_len(text) > width:
        head = chop_cells(text, width)[0]
        at = len(head) if text[len(head) :].startswith(" ") else head.rfind(" ") + 1
        at = at if head[:at].strip() else len(head)  # one word, or only what it is indented by
        pieces.append(text[:at])
        text = text[at:].lstrip(" ")
    return [*pieces, text] if text or not pieces else pieces


class AbstractWidgetMeta(_MessagePumpMeta, ABCMeta):
    """Metaclass of widgets with abstract methods: a class that lacks one cannot be instantiated."""


class SelfSizedScrollView(ScrollView):
    """A scroll view that sets its own height, so that Textual does not repaint it at every layout."""

    _laid_out: tuple[Size, Size] | None = None

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        if self._laid_out == (size, container_size):
            return False
        self._laid_out = size, container_size
        return super()._size_updated(size, virtual_size, container_size, layout)


class NeverScrolled(Widget):
    """A widget without scroll bars; a change of its size causes no second layout."""

    virtual_size: reactive[Size] = reactive(Size(0, 0))


class Backdrop(Widget):
    """A container that paints only its background, from one blank line that is reused for each row."""

    def render_lines(self, crop: Region) -> list[Strip]:
        strip = Strip.blank(crop.width, self.visual_style.background_style.rich_style)
        for each in self.get_line_filters():
            strip = strip.apply_filter(each, self.styles.background)
        return [strip] * crop.height


class Room(Container, Backdrop, NeverScrolled): ...


class _MixedStyles(dict[str, Style]):
    """Text styles mixed with one background, each on first use."""

    def __init__(self, mix: StyleOf) -> None:
        super().__init__()
        self._mix = mix

    def __missing__(self, name: str) -> Style:
        style = self[name] = self._mix(name)
        return style


class StyledWidget(Widget):
    """A widget that draws its own lines, in styles that the theme names."""

    def style_of(self, name: str) -> Style:
        """The style of that name without a background; plain text for an unknown name."""
        return self._cached_style(name, "ink-")

    def ground(self, name: str) -> Style:
        """The background style of that name: "cursor", "cursor-blurred", "marked", "head", "bar" or "here"."""
        return self._cached_style(name, "ground-")

    def notify_style_update(self) -> None:
        super().notify_style_update()
        for name in ("_mixed", "_mixes", "base_style"):
            self.__dict__.pop(name, None)

    @cached_property
    def base_style(self) -> Style:
        """The widget's own style; mixing in its parents' styles would cost as much as drawing each line."""
        return self.rich_style

    def over(self, ground: Style) -> StyleOf:
        mixes: dict[Style, _MixedStyles] = self.__dict__.setdefault("_mixes", {})
        if ground not in mixes:
            mixes[ground] = _MixedStyles(lambda style: ground + self.style_of(style))
        return mixes[ground].__getitem__

    def _cached_style(self, name: str, kind: str) -> Style:
        mixed: dict[str, Style] = self.__dict__.setdefault("_mixed", {})
        style = mixed.get(kind + name)
        if style is None:
            colours = {**DARK.variables, **self.app.theme_variables}
            colour = colours.get(kind + name)
            alone = name == "bad" and self.app.no_color  # red is a dark grey without colours
            colour = colours["ink-strong"] if alone else colour
            plain = Style(
                color=colour or colours["ink-text"], bold=name in BOLD_STYLES or None, underline=alone or None
            )
            style = mixed[kind + name] = Style(bgcolor=colour) if kind == "ground-" else plain
        return style


class PaintedLines(StyledWidget, metaclass=AbstractWidgetMeta):
    """A widget of many lines that repaints only the columns that have changed."""

    @cached_property
    def _painted_strips(self) -> dict[int, Strip]:
        return {}

    @abstractmethod
    def draw_line(self, y: int) -> Strip:
        """One line as segments; returns the same object as before if it did not change."""

    def render_line(self, y: int) -> Strip:
        strip = self._painted_strips[y] = self.draw_line(y)
        return strip

    def repaint_changed(self) -> None:
        for y in range(self.size.height):
            old, new = self._painted_strips.get(y), self.draw_line(y)
            if old is new:
                continue
            left, end = changed_columns(old, new) if old is not None else (0, self.size.width)
            if left < end:
                self.refresh(Region(left, y, end - left, 1))


def forget_drawing(node: DOMNode) -> None:
    """Drop the drawn lines of a widget, which are most of a page's memory, without waiting for garbage collection."""
    if isinstance(node, Widget):
        node._styles_cache.clear()
        vars(node).pop("_painted_strips", None)


class SnapshotText(StyledWidget):
    """A text from the cluster snapshot, marked when that may be out of date."""

    stale: reactive[bool] = reactive(False, layout=True)


def as_last_known(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The line, marked as being of a snapshot that may be out of date."""
    return (Span("last known: ", "waits"), *dim_spans(spans))


def dim_spans(spans: Iterable[Span]) -> list[Span]:
    return [Span(run.text, "dim") for run in spans]


class CutLines(StyledWidget):
    """A widget with lines, each cut at the widget's width."""

    lines: reactive[tuple[tuple[Span, ...], ...]] = reactive(())

    def render_line(self, y: int) -> Strip:
        runs = self.lines[y] if y < len(self.lines) else ()
        shown = [Span("  "), *cut_sentence(runs, self.size.width - 2)]
        return line(shown, self.size.width, self.over(self.rich_style.background_style))
