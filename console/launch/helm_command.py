"""Writes a launch as a `helm` command, and parses a pasted one; nothing is run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.errors import BadInput
from console.kube.nested_values import Value

_IN_VALUES = re.compile(r"[\\,]")
_IN_NAMES = re.compile(r"[\\.,=\[\]]")  # what Helm takes for grammar unless a backslash stands before it
_ESCAPED = r"\\\g<0>"


@dataclass(frozen=True, slots=True)
class HelmCommand:
    """A launch as a command line, in two forms that create the same release."""

    with_file: str  # with the values in a file beside it; one option a line
    file_name: str
    file_text: str  # what that file holds
    inline: str  # with every value in the line
    needs: tuple[str, ...] = ()  # variables of the environment that hold secrets and have to be set first


def helm_command(
    name: str,
    chart: str,
    options: Sequence[tuple[str, str]],
    values: Mapping[str, Value],
    file_text: str,
    *,
    files: Mapping[str, str],
    secrets: Mapping[str, str],
) -> HelmCommand:
    """The helm command of a launch; paths in `files` are given by file, those in `secrets` by variable."""
    file_name = f"{name}.values.yaml"
    tail = [("--set-file", f"{escape_path(path)}={file}") for path, file in files.items()]
    hidden = [f'--set-string {shlex.quote(escape_path(path))}="${variable}"' for path, variable in secrets.items()]

    def line(own: Iterable[tuple[str, str]]) -> str:
        written = (f"{option} {shlex.quote(value)}" for option, value in (*options, *own, *tail))
        return " \\\n  ".join([shlex.join(["helm", "install", name, chart]), *written, *hidden])

    with_file, inline = line([("--values", file_name)]), line(iter_set_options(values))
    return HelmCommand(with_file, file_name, file_text, inline, (*secrets.values(),))


def iter_set_options(values: Mapping[str, Value], above: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the options that set nested values: --set-string for text, --set for numbers, --set-json for lists."""
    for name, value in values.items():
        way = (*above, name)
        path = ".".join(_IN_NAMES.sub(_ESCAPED, each) for each in way)
        if isinstance(value, Mapping) and value:
            yield from iter_set_options(value, way)
        elif isinstance(value, str) and not value.startswith("{"):
            yield "--set-string", f"{path}={_IN_VALUES.sub(_ESCAPED, value)}"
        elif value is None or isinstance(value, int):
            yield "--set", f"{path}={json.dumps(value)}"
        else:
            yield "--set-json", f"{path}={json.dumps(value, ensure_ascii=False)}"


def escape_path(path: str) -> str:
    r"""The path with dots in its last name escaped for Helm (launchers.run\.sh)."""
    first, _, rest = path.partition(".")
    return f"{first}.{_IN_NAMES.sub(_ESCAPED, rest)}" if first == "launchers" else path


_NAME = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w .-]*>")
_SETS = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_COMMAND_ENDS = {"\n", ";", "|", "&"}


@dataclass(slots=True)
class CommandWord:
    """One word of a command, and the variables in it that are not set."""

    text: str = ""
    unknown: list[str] = field(default_factory=list)


def split_commands(text: str, variables: Mapping[str, str]) -> list[list[CommandWord]]:
    """All simple commands of a shell text; `export NAME=value` lines set variables for the following ones."""
    known = dict(variables)
    made: list[list[CommandWord]] = []
    splitter = _ShellSplitter(text, known)
    while (words := splitter.next_command()) is not None:
        rest = list(words)
        while rest and (assigned := _SETS.fullmatch(rest[0].text)) and not rest[0].unknown:
            known[assigned[1]] = assigned[2]
            rest.pop(0)
        if rest and rest[0].text == "export":
            for word in rest[1:]:
                assigned = _SETS.fullmatch(word.text)
                if assigned and not word.unknown:
                    known[assigned[1]] = assigned[2]
        elif rest:
            made.append(rest)
    return made


class _ShellSplitter:
    def __init__(self, text: str, variables: dict[str, str]) -> None:
        self._text = re.sub(r"\\[ \t]*\r?\n", " ", text).replace("\r\n", "\n")
        self._variables = variables
        self._at = 0

    def next_command(self) -> list[CommandWord] | None:
        """The words up to the end of a command; None at the end of the text."""
        words: list[CommandWord] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in _COMMAND_ENDS:
                self._at += 1
                if words:
                    return words
            elif char.isspace():
                self._at += 1
            elif char == "#" and (not words or self._text[self._at - 1].isspace()):
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                words.append(self._next_word())
        return words or None

    def _next_word(self) -> CommandWord:
        word = CommandWord()
        while self._at < len(self._text):
            char = self._text[self._at]
            if char.isspace() or (char in _COMMAND_ENDS and not _PLACEHOLDER.match(self._text, self._at)):
                break
            if char == "'":
                word.text += self._read_until_quote("'")
            elif char == '"':
                self._read_double_quoted(word)
            elif char == "\\":
                word.text += self._text[self._at + 1 : self._at + 2]
                self._at += 2
            else:
                self._read_unquoted(word)
        return word

    def _read_until_quote(self, quote: str) -> str:
        end = self._text.find(quote, self._at + 1)
        if end < 0:
            line = self._text.count("\n", 0, self._at) + 1
            raise BadInput(f"The quote {quote} in line {line} is never closed.")
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        return inner

    def _read_double_quoted(self, word: CommandWord) -> None:
        opened = self._at
        self._at += 1
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                return
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in {'"', "\\", "$", "`"}:
                word.text += self._text[self._at + 1]
                self._at += 2
            else:
                self._read_unquoted(word)
        line = self._text.count("\n", 0, opened) + 1
        raise BadInput(f'The quote " in line {line} is never closed.')

    def _read_unquoted(self, word: CommandWord) -> None:
        """Read one character, a variable, or a placeholder that the person has to replace."""
        char = self._text[self._at]
        if char == "`" or self._text.startswith("$(", self._at):
            close = "`" if char == "`" else ")"
            end = self._text.find(close, self._at + 1)
            end = len(self._text) if end < 0 else end + 1
            self._add_placeholder(word, self._text[self._at : end])
        elif found := _NAME.match(self._text, self._at):
            name = found[1] or found[2]
            self._at = found.end()
            value = self._variables.get(name, found[3])
            if value is None:
                word.unknown.append(f"${name}")
                value = f"${name}"
            word.text += value
        elif found := _PLACEHOLDER.match(self._text, self._at):
            self._add_placeholder(word, found[0])
        else:
            word.text += char
            self._at += 1

    def _add_placeholder(self, word: CommandWord, text: str) -> None:
        word.unknown.append(text)
        word.text += text
        self._at += len(text)


KeyPath = tuple[str | int, ...]  # names and places in lists: ("workload", "envs", 7, "value")

_VERBS = {"install", "upgrade", "template"}
_ORDER = ("--set-json", "--set", "--set-string", "--set-file", "--set-literal")  # as Helm applies them
_SHORT_OPTIONS = {"-n": "--namespace", "-f": "--values", "-l": "--labels", "-g": "--generate-name", "-i": "--install"}
_FLAG_OPTIONS = {
    "--install", "--generate-name", "--create-namespace", "--wait", "--wait-for-jobs", "--atomic", "--debug", "--devel",
    "--dependency-update", "--no-hooks", "--replace", "--skip-crds", "--verify", "--force", "--reuse-values",
    "--reset-values", "--disable-openapi-validation", "--take-ownership", "--rollback-on-failure", "--hide-notes",
    "--render-subchart-notes", "--cleanup-on-fail", "--pass-credentials", "--insecure-skip-tls-verify", "--plain-http",
    "--enable-dns", "--skip-schema-validation", "--hide-secret", "--dry-run",
}  # fmt: skip
_COMMAND = re.compile(r"(^|[\s;&$/])helm\s+(install|upgrade|template)\b")
_LONGEST_LIST = 1000


@dataclass(frozen=True, slots=True)
class HelmSetting:
    way: KeyPath
    value: Any  # text, number, truth, None, list or map; of --set-file the file's path
    file: bool = False
    unknown: tuple[str, ...] = ()  # variables in it that nobody has set

    @property
    def path(self) -> str:
        return format_key_path(self.way)


@dataclass(slots=True)
class HelmLine:
    name: str = ""
    namespace: str = ""
    chart: str = ""
    labels: str = ""
    files: list[str] = field(default_factory=list)  # values files, in order
    settings: list[HelmSetting] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # variables in name, namespace or paths that nobody has set
    others: int = 0  # further helm commands in the text


def looks_like_helm(text: str) -> bool:
    """Whether pasted text has a `helm install`, `upgrade` or `template`, or begins with `--set`; else it is YAML."""
    return bool(re.search(r"(^|[\s;&$])helm\s+(install|upgrade|template)\b|\A\s*--set", text))


def parse_helm_line(text: str, variables: Mapping[str, str]) -> HelmLine:
    """The first helm command in a text; BadInput if there is none or it cannot be parsed."""
    if text.lstrip().startswith("--set"):
        text = f"helm install {text}"
    found = [rest for words in split_commands(text, variables) if (rest := _install_arguments(words)) is not None]
    if not found:
        raise BadInput("There is no helm install command in this text.", "Paste it from `helm install` to its end.")
    line = HelmLine(others=len(found) - 1)
    given: dict[str, list[CommandWord]] = {}
    places: list[CommandWord] = []
    _split_options(found[0], given, places)
    if len(places) > 1:
        line.name = _known_text(line, places[0])
    if places:
        line.chart = places[-1].text
    for word in given.get("--namespace", ())[-1:]:
        line.namespace = _known_text(line, word)
    line.labels = ",".join(word.text for word in given.get("--labels", ()))
    line.files = [each for word in given.get("--values", ()) for each in word.text.split(",") if each]
    for option in _ORDER:
        for word in given.get(option, ()):
            line.settings += _parse_settings(option, word)
    return line


def _install_arguments(words: list[CommandWord]) -> list[CommandWord] | None:
    texts = [word.text for word in words]
    for at, text in enumerate(texts[:-1]):
        if text.rpartition("/")[2] == "helm" and texts[at + 1] in _VERBS:
            return words[at + 2 :]
    return None


def _split_options(words: list[CommandWord], given: dict[str, list[CommandWord]], places: list[CommandWord]) -> None:
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.text.startswith("-") or word.text == "-":
            places.append(word)
            continue
        option, equals, value = word.text.partition("=")
        if not option.startswith("--") and len(option) > 2:
            option, equals, value = option[:2], "=", option[2:] + equals + value
        option = _SHORT_OPTIONS.get(option, option)
        if equals:
            given.setdefault(option, []).append(CommandWord(value, word.unknown))
        elif option not in _FLAG_OPTIONS and left:
            given.setdefault(option, []).append(left.pop(0))


def _known_text(line: HelmLine, word: CommandWord) -> str:
    line.unknown += word.unknown
    return "" if word.unknown else word.text


def _parse_settings(option: str, word: CommandWord) -> list[HelmSetting]:
    text, unknown = word.text, tuple(word.unknown)
    if option == "--set-literal":
        path, _, value = text.partition("=")
        return [HelmSetting(_parse_key_path(path), value, unknown=unknown)]
    if option == "--set-json":
        return _parse_json_settings(text, unknown)
    made: list[HelmSetting] = []
    for path, value in _split_pairs(text):
        read: Any = value
        if option == "--set-file":
            made.append(HelmSetting(_parse_key_path(path), _unescape(value), file=True, unknown=unknown))
            continue
        if value.startswith("{") and value.endswith("}"):
            inner = value[1:-1]
            read = [_convert_value(each, option) for each in _split_unescaped(inner, ",")] if inner else []
        else:
            read = _convert_value(value, option)
        mine = tuple(name for name in unknown if name in path or name in value)
        made.append(HelmSetting(_parse_key_path(path), read, unknown=mine))
    return made


def _parse_json_settings(text: str, unknown: tuple[str, ...]) -> list[HelmSetting]:
    decoder = json.JSONDecoder()
    try:
        if text.lstrip().startswith("{"):
            return [HelmSetting((name,), value, unknown=unknown) for name, value in decoder.decode(text).items()]
        made = []
        while text:
            path, equals, rest = text.partition("=")
            if not equals:
                raise BadInput(f"--set-json {path} has no value.", "Write --set-json 'path=[1, 2]'.")
            value, end = decoder.raw_decode(rest.lstrip())
            made.append(HelmSetting(_parse_key_path(path), value, unknown=unknown))
            text = rest.lstrip()[end:].lstrip().removeprefix(",")
        return made
    except (ValueError, RecursionError, AttributeError) as error:
        raise BadInput(f"--set-json is not valid JSON: {text[:60]}.") from error


def _split_pairs(text: str) -> list[tuple[str, str]]:
    """Split `a=1,b={x,y},c=d` into pairs; escapes are kept for the value parser."""
    pairs: list[tuple[str, str]] = []
    for part in _split_unescaped(text, ",", braces=True):
        if not part:
            continue
        path, *value = _split_unescaped(part, "=", most=1)
        if not value:
            raise BadInput(f"--set {part} has no value.", "Write --set path=value.")
        pairs.append((path, value[0]))
    return pairs


def _split_unescaped(text: str, at: str, *, braces: bool = False, most: int = -1) -> list[str]:
    """Split at every unescaped `at` that is not inside the braces of a list value."""
    parts: list[str] = []
    part, depth, place = "", 0, 0
    while place < len(text):
        char = text[place]
        if char == "\\":
            part += text[place : place + 2]
            place += 2
            continue
        if braces and char == "{" and (depth or part.endswith("=")):
            depth += 1
        elif braces and char == "}" and depth:
            depth -= 1
        if char == at and not depth and len(parts) != most:
            parts.append(part)
            part = ""
        else:
            part += char
        place += 1
    return [*parts, part]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _convert_value(text: str, option: str) -> Any:
    """The value of a --set: true, false, null and integers are converted; --set-string keeps text."""
    word = _unescape(text)
    if option == "--set-string":
        return word
    plain = {"true": True, "false": False, "null": None}
    if word in plain:
        return plain[word]
    return int(word) if re.fullmatch(r"0|-?[1-9]\d{0,17}", word) else word


def _parse_key_path(path: str) -> KeyPath:
    """Split a path such as a.b[0].c into names and indexes; a dot inside a name is escaped by a backslash."""
    way: list[str | int] = []
    for name in _split_unescaped(path.strip(), "."):
        found = re.fullmatch(r"((?:[^\[\]\\]|\\.)*)((?:\[\d+\])*)", name)
        if found is None or (not found[1] and not found[2]):
            raise BadInput(f"{path} is not the path of a value.", "Write it as workload.envs[7].value.")
        if found[1]:
            way.append(_unescape(found[1]))
        places = [int(each) for each in re.findall(r"\d+", found[2])]
        if any(place >= _LONGEST_LIST for place in places):
            raise BadInput(f"{path} counts beyond {_LONGEST_LIST} entries.")
        way += places
    return tuple(way)


def format_key_path(way: KeyPath) -> str:
    text = ""
    for name in way:
        text += f"[{name}]" if isinstance(name, int) else f".{name}" if text else str(name)
    return text
