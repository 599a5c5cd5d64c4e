"""Reads and validates the person's settings, `~/.config/a4/config.toml`; invalid lines are reported and skipped.

`Config` defines the settings; its JSON schema, for editors, is made from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from console.alarm_thresholds import Thresholds
from console.errors import BadInput
from console.folders import config_folder, read_own_file
from trainlog import MAX_PATTERN_CHARACTERS, OwnFormat, compile_pattern, lazy_pattern

Color = Annotated[str, Meta(pattern="^#[0-9a-fA-F]{6}$", description='a colour such as "#5fd38d"')]
Page = Literal["fleet", "queues", "jobs", "pods", "launch", "runs", "tunnels"]
PaneSize = Literal["usual", "large", "off"]
ADDRESS_PATTERN = "^[a-zA-Z0-9+.-]{1,20}://."
MIN_REFRESH_SECONDS = 0.25
"""Seconds between two snapshots of the cluster."""
PLACEHOLDERS = ("job", "pod", "node", "namespace", "context")
"""Names that a person's own command may contain, each in braces or as a variable: {job}, $A4_JOB."""
_SHELL_TOKEN = lazy_pattern(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|<<.*|\$?\{(\w+)\}", re.DOTALL)
"""Quoted parts of a shell text, a here-document with all text after it, and other names in braces."""


class Actions(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of the console's automatic actions: the contexts in which owner labels are trusted."""

    trusts: Annotated[
        tuple[str, ...],
        Meta(description="contexts whose clusters let nobody write another's name into a4.console/owner"),
    ] = ()


class ListConfig(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    columns: Annotated[tuple[str, ...], Meta(description="titles of the columns, in this order; empty: all")] = ()
    sort: Annotated[str, Meta(description="title of the column that orders the rows")] = ""
    descending: Annotated[bool | None, Meta(description="largest first; not set: as the column does")] = None


class PaneConfig(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The person's sizes of the panes beside lists."""

    size: Annotated[PaneSize, Meta(description="the size at first, which the key of the pane changes")] = "usual"
    right: Annotated[
        int, Meta(ge=20, le=80, description="percent of the columns right of a list; not set: what the list leaves")
    ] = 0
    below: Annotated[
        int, Meta(ge=4, le=60, description="lines below a longer list; not set: what a lower terminal's list leaves")
    ] = 0


class OwnCommand(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A command defined by the person, bound to a key on pages with the objects it refers to."""

    key: Annotated[str, Meta(description='the key, such as "ctrl+t"')]
    name: Annotated[str, Meta(min_length=1, max_length=40, description="what the key line and help call it")]
    command: Annotated[str, Meta(min_length=1, description="run by sh, with {job} {pod} {node} {namespace} {context}")]
    changes: Annotated[bool, Meta(description="it changes the cluster: asks first, and is off when read-only")] = True

    @property
    def uses(self) -> tuple[str, ...]:
        """The placeholders in a command, in braces or as variables."""
        return tuple(each for each in PLACEHOLDERS if re.search(rf"\{{{each}\}}|\bA4_{each.upper()}\b", self.command))

    @property
    def script(self) -> str:
        """The command as a script for sh; object names are passed as variables, never as text."""
        return _SHELL_TOKEN.sub(
            lambda each: f'"$A4_{each[1].upper()}"' if each[0][0] == "{" and each[1] in PLACEHOLDERS else each[0],
            self.command,
        )


class ThemeConfig(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A theme defined by the person: a built-in one with other colours."""

    base: Annotated[Literal["a4-dark", "a4-light"], Meta(description="the theme that it changes")] = "a4-dark"
    colors: Annotated[dict[str, Color], Meta(description="colours by name")] = msgspec.field(default_factory=dict)


class Notifications(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The addresses to which alarms are sent, which hold secrets and are never shown."""

    to: Annotated[
        tuple[
            Annotated[str, Meta(pattern=ADDRESS_PATTERN, description="an address as apprise takes it, SCHEME://…")], ...
        ],
        Meta(description="addresses that apprise takes: Slack, mail, webhooks, ntfy, …"),
    ] = ()

    def __repr__(self) -> str:
        return f"<{len(self.to)} addresses>"


class LogFormat(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A person's own log format: the pattern of a training program's step line."""

    name: Annotated[str, Meta(min_length=1, max_length=40, description="what the program is called")]
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN_CHARACTERS,
            description="a regular expression as RE2 takes it, with the group (?P<step>…) and any of total, loss, "
            "grad_norm, lr, time, time_ms, steps_per_s, tflops, tokens; other groups are kept under their names",
        ),
    ]


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of the console."""

    theme: Annotated[str, Meta(description="a theme of ours, of Textual's, or of [themes]")] = "a4-dark"
    start: Annotated[Page, Meta(description="the page that is open at first")] = "fleet"
    refresh: Annotated[
        float, Meta(ge=MIN_REFRESH_SECONDS, le=60, description="seconds between two pictures, at least")
    ] = MIN_REFRESH_SECONDS
    keys: Annotated[
        dict[str, str], Meta(description="keys of bindings by their id, as `a4 config keys` lists them")
    ] = msgspec.field(default_factory=dict)
    lists: Annotated[dict[str, ListConfig], Meta(description="columns and order of lists, by the list's name")] = (
        msgspec.field(default_factory=dict)
    )
    panes: Annotated[PaneConfig, Meta(description="sizes of the panes beside lists")] = PaneConfig()
    themes: Annotated[dict[str, ThemeConfig], Meta(description="themes of one's own, by name")] = msgspec.field(
        default_factory=dict
    )
    commands: Annotated[tuple[OwnCommand, ...], Meta(description="commands of one's own")] = ()
    notifications: Annotated[Notifications, Meta(description="where the console sends alarms")] = Notifications()
    formats: Annotated[tuple[LogFormat, ...], Meta(description="formats of one's own training logs")] = ()
    alarms: Annotated[Thresholds, Meta(description="thresholds of alarms")] = Thresholds()
    actions: Annotated[Actions, Meta(description="whose jobs are looked into unasked")] = Actions()


class ConfigProblem(Struct, frozen=True):
    line: int
    text: str
    """The problem and the allowed values, in sentences."""
    path: tuple[str | int, ...] = ()


class LoadedConfig(Struct, frozen=True):
    """The settings in force, and the problems of their file."""

    path: Path
    config: Config
    problems: tuple[ConfigProblem, ...] = ()
    text: str | None = None
    """The text of the file; None if there is no file or it cannot be read."""

    def __repr__(self) -> str:
        return f"<{self.path}>"  # the text may hold secrets

    def line_of(self, *path: str | int) -> int:
        return find_line(self.text or "", path)


def config_path() -> Path:
    return config_folder() / "config.toml"


MAX_CONFIG_BYTES = 1 << 20  # bytes of the settings


def config_mtime(path: Path | None = None) -> int:
    """Modification time of `path`, else of the person's settings file, in nanoseconds; 0 if it cannot be read."""
    try:
        return (path or config_path()).stat().st_mtime_ns
    except OSError:
        return 0


def load_config(path: Path | None = None) -> LoadedConfig:
    """Read `path`, else the person's settings file; defaults without it; faults are reported, not raised. Blocking."""
    path = path or config_path()
    try:
        text = read_own_file(path, MAX_CONFIG_BYTES).decode()
    except FileNotFoundError:
        return LoadedConfig(path, Config())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return LoadedConfig(path, Config(), (ConfigProblem(1, f"The file cannot be read: {why}."),))
    problems: list[ConfigProblem] = []
    data = _parse_toml(text, problems)
    config = _convert_value(data, Config, (), text, problems)
    return LoadedConfig(path, config, tuple(sorted(problems, key=lambda each: each.line)), text)


_loaded_config: tuple[Path, int, LoadedConfig] | None = None


def current_config() -> LoadedConfig:
    """The current settings, read again only if the file has changed. Blocking."""
    global _loaded_config
    now = (path := config_path()), config_mtime(path)
    if _loaded_config is None or _loaded_config[:2] != now:
        _loaded_config = (*now, load_config(now[0]))
    return _loaded_config[2]


def own_log_formats() -> tuple[OwnFormat, ...]:
    """The person's own log formats in the settings, compiled for the parser of training logs. Blocking."""
    return tuple(OwnFormat(each.name, compile_pattern(each.pattern)) for each in current_config().config.formats)


def with_thresholds(limits: Thresholds, settings: Mapping[str, Any]) -> Thresholds:
    """The thresholds with some changed. Raises BadInput, which names the first invalid one."""
    problems: list[ConfigProblem] = []
    found: Thresholds = _convert_value({**msgspec.to_builtins(limits), **settings}, Thresholds, (), "", problems)
    if problems:
        raise BadInput(problems[0].text)
    return found


def json_schema() -> dict[str, Any]:
    return msgspec.json.schema(Config)


MAX_WRONG_LINES = 50
_ERROR_PLACE = lazy_pattern(r"\(at (?:line (\d+), column \d+|end of document)\)")


def _parse_toml(text: str, problems: list[ConfigProblem]) -> dict[str, Any]:
    """Parse TOML, skipping invalid lines."""
    import tomllib  # most who start a4 have no such file

    lines = text.split("\n")
    for _ in range(MAX_WRONG_LINES):
        try:
            return tomllib.loads("\n".join(lines))
        except tomllib.TOMLDecodeError as error:
            at = _ERROR_PLACE.search(str(error))
            number = int(at[1]) if at and at[1] else len(lines)
            while number > 1 and not lines[number - 1].strip():
                number -= 1  # a text or list that is not closed is noticed where the next line begins
            message = _ERROR_PLACE.sub("", str(error)).strip()
            problems.append(ConfigProblem(number, f"This is no TOML: {message[:1].lower()}{message[1:]}."))
            lines[number - 1] = ""
    return {}


def _convert_value(value: Any, kind: Any, path: tuple[str | int, ...], text: str, problems: list[ConfigProblem]) -> Any:
    """Convert a value to the type, dropping and reporting invalid parts."""
    bare, meta = _without_metadata(kind)
    origin = get_origin(bare)
    if isinstance(bare, type) and issubclass(bare, Struct):
        return _convert_struct(value, bare, path, text, problems)
    if origin is dict and isinstance(value, dict):
        of = get_args(bare)[1]
        parts = {key: _convert_value(each, of, (*path, key), text, problems) for key, each in value.items()}
        return {key: each for key, each in parts.items() if each is not None}
    if origin is tuple and isinstance(value, list):
        of = get_args(bare)[0]
        items = [_convert_value(each, of, (*path, number), text, problems) for number, each in enumerate(value)]
        return tuple(each for each in items if each is not None)
    try:
        return msgspec.convert(value, Annotated[bare, meta] if meta else bare)
    except msgspec.ValidationError:
        found = "not shown" if path[:1] == ("notifications",) else _shorten_value(value)  # it may hold a secret
        message = f"{_format_path(path)} is {found}, and has to be {_describe_allowed(bare, meta)}."
        problems.append(ConfigProblem(find_line(text, path), message, path))
        return None


def _convert_struct(
    value: Any, kind: type[Struct], path: tuple[str | int, ...], text: str, problems: list[ConfigProblem]
) -> Any:
    if not isinstance(value, dict):
        found = "not shown" if path[:1] == ("notifications",) else _shorten_value(value)
        message = f"{_format_path(path)} is {found}, and has to be a table with {', '.join(kind.__struct_fields__)}."
        problems.append(ConfigProblem(find_line(text, path), message, path))
        return None
    types = get_type_hints(kind, include_extras=True)
    given: dict[str, Any] = {}
    for key, each in value.items():
        if key not in types:
            message = f"There is no setting {_format_path((*path, key))}. There are {', '.join(types)}."
            problems.append(ConfigProblem(find_line(text, (*path, key)), message, (*path, key)))
        elif (part := _convert_value(each, types[key], (*path, key), text, problems)) is not None:
            given[key] = part
    missing = [each.name for each in msgspec.structs.fields(kind) if each.required and each.name not in given]
    if missing:
        if not set(missing) & value.keys():  # what is there and wrong has been named
            message = f"{_format_path(path)} lacks {' and '.join(missing)}."
            problems.append(ConfigProblem(find_line(text, path), message, path))
        return None
    made = kind(**given)
    field, why = "", ""
    if isinstance(made, LogFormat):
        field, why = "pattern", _pattern_error(made.pattern)
    elif isinstance(made, OwnCommand):
        field, why = "command", _placeholder_error(made.command)
    if why:
        at = (*path, field)
        problems.append(ConfigProblem(find_line(text, at), f"{_format_path(at)} {why}", at))
        return None
    return made


def _pattern_error(pattern: str) -> str:
    """The fault of a log format's pattern and what is allowed, to end a sentence; empty if there is none."""
    try:
        groups = compile_pattern(pattern).groups
    except ValueError as error:
        return f"is no pattern of RE2's: {error}. Look-around and backreferences are not among them."
    return "" if "step" in groups else "has no group (?P<step>…), by which steps are counted."


def _placeholder_error(command: str) -> str:
    """The fault of a command's first bad placeholder, with a correction, to end a sentence; else empty."""
    for part in _SHELL_TOKEN.finditer(command):
        text, name = part[0], part[1]
        if text.startswith("$") and name in PLACEHOLDERS:
            return f"has ${{{name}}}: write {{{name}}}, or $A4_{name.upper()}."
        if name and not text.startswith("$") and name not in PLACEHOLDERS:
            return f"has {{{name}}}: nothing is put in for it. There are {{{'}, {'.join(PLACEHOLDERS)}}}."
        if not name and (quoted := next((each for each in PLACEHOLDERS if f"{{{each}}}" in text), "")):
            put, mark = f"$A4_{quoted.upper()}", text[0]
            instead = f"'…'{{{quoted}}}'…', which ends the quotes before it" if mark == "'" else f"{put} there"
            return f"has {{{quoted}}} in {'a here-document' if mark == '<' else 'quotes'}: write {instead}."
    return ""


def _without_metadata(kind: Any) -> tuple[Any, Meta | None]:
    if get_origin(kind) is Annotated:
        bare, meta, *more = get_args(kind)  # what is annotated twice has the bounds first
        return bare, meta if not more or meta.ge is not None else more[0]
    return kind, None


def _describe_allowed(kind: Any, meta: Meta | None) -> str:
    """The values that a type allows, as text; `meta` has its bounds, None if it has none."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if kind is bool or NoneType in get_args(kind):
        return "true or false"
    if kind in {int, float} and meta:
        noun = "a whole number" if kind is int else "a number"
        return f"{noun} of at least {meta.ge:g}" if meta.le is None else f"{noun} from {meta.ge:g} to {meta.le:g}"
    if get_origin(kind) is tuple:
        return "a list of texts in quotes"
    if get_origin(kind) is dict:
        return "a table"
    if meta and meta.pattern:
        return meta.description or "another text"
    if meta and meta.max_length:
        return f"a text of 1 to {meta.max_length} characters"
    return "a text in quotes" + (" that is not empty" if meta and meta.min_length else "")


def _shorten_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _format_path(path: tuple[str | int, ...]) -> str:
    """A path as text: "commands[2].key", counted from 1."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


_TABLE_HEADER = lazy_pattern(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY_AT_LINE_START = lazy_pattern(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")
_KEY_PART = lazy_pattern(r"[\w-]+|\"[^\"]*\"|'[^']*'")


def find_line(text: str, path: tuple[str | int, ...]) -> int:
    """The line number of a setting in a TOML file, else of its table, else 1."""
    table: tuple[str | int, ...] = ()
    counts: dict[tuple[str | int, ...], int] = {}
    best, found = -1, 1
    for number, line in enumerate(text.split("\n"), 1):
        if header := _TABLE_HEADER.match(line):
            here = table = _split_path(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                here = table = (*table, counts[table])
        elif key := _KEY_AT_LINE_START.match(line):
            here = (*table, *_split_path(key[1]))
        else:
            continue
        if here[: len(path)] == path:
            return number
        if len(here) > best and path[: len(here)] == here:
            best, found = len(here), number
    return found


def _split_path(dotted: str) -> tuple[str | int, ...]:
    return tuple(each.strip("\"'") for each in _KEY_PART.findall(dotted))
