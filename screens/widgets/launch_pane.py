"""Four views of one launch: what will be created, its values as YAML, what differs, and the helm command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import ContentSwitcher, TextArea

from console.models.manifests import Change
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.tab_strip import Tab, TabStrip
from screens.widgets.yaml_edit import YamlEditor
from screens.widgets.yaml_text import YamlText, yaml_runs
from screens.wording import Run, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.widget import Widget

    from console.models.draft import Remark
    from console.models.helm_line import HelmCommand
    from console.models.manifests import ObjectDiff

VIEWS = (
    ("preview", "f2", "Preview"),
    ("yaml", "f3", "YAML"),
    ("diff", "f4", "Diff"),
    ("command", "f5", "Command"),
)
_DIFF_INKS = {"+": "ok", "-": "bad", "@": "faint", "=": "head"}


class DiffText(YamlText):
    """Objects side by side, lines that came and went marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "screen.against", "Beside the last launch", id="diff.against",
                tooltip="What differs from the last launch of this recipe, or from its defaults again"),
    ]  # fmt: skip

    def paint(self, text: str, whole: str) -> list[Run]:
        """The mark says it; the colour says it again."""
        ink = _DIFF_INKS.get(whole[:1], "")
        return [Run(text, ink)] if ink else yaml_runs(text)

    def show_diffs(self, diffs: Sequence[ObjectDiff]) -> None:
        """Only what is different."""
        lines = []
        for diff in diffs:
            if diff.change is not Change.SAME:
                lines.append(f"== {diff.kind} {diff.name} ({diff.change})")
                lines += [f"@  {line.text}" if line.mark == "@" else f"{line.mark} {line.text}" for line in diff.lines]
        self.show("\n".join(lines))


class CommandText(YamlText):
    """The helm command; c copies it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy", "Copy", id="command.copy", tooltip="The command, into this machine's clipboard"),
        Binding("i", "turn", "All in one line", id="command.inline",
                tooltip="The values in the line itself, or in a file beside it"),
    ]  # fmt: skip

    inline = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._command: HelmCommand | None = None

    def show_command(self, command: HelmCommand) -> None:
        """Another launch's command."""
        self._command = command
        lines = [self._line]
        if command.needs:
            lines += ["", f"# First: export {' '.join(f'{name}=…' for name in command.needs)}"]
        if not self.inline:
            lines += ["", f"# {command.file_name}", command.file_text or "{}"]
        self.show("\n".join(lines))

    @property
    def _line(self) -> str:
        assert self._command is not None
        return self._command.inline if self.inline else self._command.with_file

    def paint(self, text: str, whole: str) -> list[Run]:
        """Options stand out."""
        lead = text[: len(text) - len(text.lstrip())]
        word, gap, rest = text.lstrip().partition(" ")
        if word.startswith("--") or word == "helm":
            return [Run(lead), Run(word, "accent"), Run(gap + rest)]
        return yaml_runs(text)

    def action_copy(self) -> None:
        """By OSC 52, so it works over ssh too."""
        if self._command is not None:
            self.app.copy_to_clipboard(self._line)
            self.notify("The command is in the clipboard.", timeout=3)

    def action_turn(self) -> None:
        """With a file, or all in the line."""
        self.inline = not self.inline
        if self._command is not None:
            self.show_command(self._command)


class LaunchPane(Vertical):
    """The views under their tabs; whoever shows the pane fills the one in front."""

    DEFAULT_CSS: ClassVar[str] = """
    LaunchPane { height: 1fr; }
    LaunchPane ContentSwitcher, LaunchPane ContentSwitcher > Vertical { height: 1fr; }
    LaunchPane SentenceLine { background: $ground-head; max-height: 4; }
    """

    @dataclass
    class Typed(Message):
        """Somebody typed into the YAML."""

        text: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.here = "preview"
        self.preview = YamlText(id="preview")
        self.yaml = YamlEditor()
        self.yaml_said = SentenceLine()
        self.diff = DiffText()
        self.diff_said = SentenceLine()
        self.command = CommandText(id="command")
        self._shown = ""

    def compose(self) -> ComposeResult:
        """The tabs and what is in them."""
        yield TabStrip()
        with ContentSwitcher(initial=self.here):
            yield self.preview
            with Vertical(id="yaml"):
                yield self.yaml
                yield self.yaml_said
            with Vertical(id="diff"):
                yield self.diff_said
                yield self.diff
            yield self.command

    def on_mount(self) -> None:
        """The tabs' names."""
        self.open(self.here)
        self.say_remarks(())

    @property
    def keys_to(self) -> Widget:
        """What has the keys in the view in front."""
        views: dict[str, Widget] = {
            "preview": self.preview, "yaml": self.yaml, "diff": self.diff, "command": self.command,
        }  # fmt: skip
        return views[self.here]

    def open(self, view: str) -> None:
        """Another view in front."""
        self.here = view
        strip = self.query_one(TabStrip)
        strip.tabs = tuple(Tab(name, key.upper(), title) for name, key, title in VIEWS)
        strip.here = view
        self.query_one(ContentSwitcher).current = view

    def show_yaml(self, text: str, *, anew: bool = False) -> None:
        """The values as the form has them; `anew`: of another recipe."""
        self._shown = text
        (self.yaml.begin if anew else self.yaml.show)(text)

    def say_remarks(self, remarks: Sequence[Remark]) -> None:
        """What is wrong with the YAML, at its lines and below it; nothing: what it is."""
        self.yaml.mark({remark.line for remark in remarks})
        if remarks:
            first = remarks[0]
            where = f"line {first.line}: " if first.line else ""
            more = f" ({len(remarks) - 1} more)" if len(remarks) > 1 else ""
            said: tuple[Run, ...] = (Run("✗ ", "bad"), Run(f"{where}{sentence(first.message)}{more}", "bad"))
        else:
            said = (Run("What differs from the defaults; typing here changes the form.", "dim"),)
        self.yaml_said.runs = said

    @on(TextArea.Changed)
    def take_typing(self, event: TextArea.Changed) -> None:
        """Only what a person types counts."""
        event.stop()
        text = self.yaml.text
        if text != self._shown:
            self._shown = text
            self.post_message(self.Typed(text))
