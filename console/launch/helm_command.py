"""Writes a launch as a `helm` command, and parses a pasted one; nothing is run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from console.errors import BadInput
from console.kube.nested_values import Value
from console.launch.helm_set_parser import SET_OPTIONS

_ESCAPED_IN_VALUES = re.compile(r"[\\,]")
_ESCAPED_IN_NAMES = re.compile(r"[\\.,=\[\]]")  # what Helm takes for grammar unless a backslash stands before it
_WITH_BACKSLASH = r"\\\g<0>"


@dataclass(frozen=True, slots=True)
class HelmCommand:
    """A launch as a helm command line; both of its forms create the same release."""

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
    """The helm install command: values in `files` by --set-file, those in `secrets` as shell variables."""
    file_name = f"{name}.values.yaml"
    tail = [("--set-file", f"{escape_path(path)}={file}") for path, file in files.items()]
    hidden = [f'--set-string {shlex.quote(escape_path(path))}="${variable}"' for path, variable in secrets.items()]

    def line(own: Iterable[tuple[str, str]]) -> str:
        written = (f"{option} {shlex.quote(value)}" for option, value in (*options, *own, *tail))
        return " \\\n  ".join([shlex.join(["helm", "install", name, chart]), *written, *hidden])

    with_file, inline = line([("--values", file_name)]), line(iter_set_options(values))
    return HelmCommand(with_file, file_name, file_text, inline, (*secrets.values(),))


def iter_set_options(values: Mapping[str, Value], parent_keys: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield (option, text) that set nested values: --set-string, --set for numbers, --set-json for lists."""
    for name, value in values.items():
        way = (*parent_keys, name)
        path = ".".join(_ESCAPED_IN_NAMES.sub(_WITH_BACKSLASH, each) for each in way)
        if isinstance(value, Mapping) and value:
            yield from iter_set_options(value, way)
        elif isinstance(value, str) and not value.startswith("{"):
            yield "--set-string", f"{path}={_ESCAPED_IN_VALUES.sub(_WITH_BACKSLASH, value)}"
        elif value is None or isinstance(value, int):
            yield "--set", f"{path}={json.dumps(value)}"
        else:
            yield "--set-json", f"{path}={json.dumps(value, ensure_ascii=False)}"


def escape_path(path: str) -> str:
    r"""The path with dots in its last name escaped for Helm (launchers.run\.sh)."""
    first, _, rest = path.partition(".")
    return f"{first}.{_ESCAPED_IN_NAMES.sub(_WITH_BACKSLASH, rest)}" if first == "launchers" else path


_VARIABLE = r"\$(?:(?P<name>\w+)|\{(?P<braced>\w+)(?::?-(?P<default>[^}]*))?\})"
_SUBSTITUTION = r"`[^`]*(?:`|\Z)|\$\([^)]*(?:\)|\Z)"
_SHELL_EXPANSION = rf"{_VARIABLE} | (?P<replaced>{_SUBSTITUTION}|<[A-Za-z][\w .-]*>)"  # or what a person replaces
_SHELL_PART = re.compile(
    rf"""(?P<end>[\n;|&]) | (?P<blank>[^\S\n]+) | (?P<comment>(?<![^\s;|&])\#[^\n]*) | '(?P<single>[^']*)'
    | "(?P<double>(?>(?>\\.|{_SUBSTITUTION}|[^"\\])*))" | (?P<open>['"]) | \\(?P<escaped>.\#*|\Z)
    | {_SHELL_EXPANSION} | (?P<text>.)""",
    re.VERBOSE | re.DOTALL,
)
_DOUBLE_QUOTED = re.compile(rf"""\\(?P<escaped>["\\$`]) | {_SHELL_EXPANSION} | (?P<text>.)""", re.VERBOSE | re.DOTALL)
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(slots=True)
class CommandWord:
    """One word of a shell command, and the variables in it that have no value."""

    text: str = ""
    unknown_variables: list[str] = field(default_factory=list)

    def add(self, match: re.Match[str], variables: Mapping[str, str]) -> None:
        """Append the matched text: a character, a variable's value, or (unknown variable) a placeholder."""
        given = match.groupdict()
        name = given["name"] or given["braced"]
        text = variables.get(name, given["default"]) if name else given["text"] or given["escaped"]
        if text is None:
            text = f"${name}" if name else given["replaced"]
            self.unknown_variables.append(text)
        self.text += text


def split_commands(text: str, variables: Mapping[str, str]) -> list[list[CommandWord]]:
    """All simple commands of a shell text; `export NAME=value` lines set variables for the following ones."""
    known = dict(variables)
    made: list[list[CommandWord]] = []
    for words in _iter_commands(text, known):
        rest = list(words)
        while rest and (assigned := _ASSIGNMENT.fullmatch(rest[0].text)) and not rest[0].unknown_variables:
            known[assigned[1]] = assigned[2]
            rest.pop(0)
        if rest and rest[0].text == "export":
            for word in rest[1:]:
                assigned = _ASSIGNMENT.fullmatch(word.text)
                if assigned and not word.unknown_variables:
                    known[assigned[1]] = assigned[2]
        elif rest:
            made.append(rest)
    return made


def _iter_commands(text: str, variables: Mapping[str, str]) -> Iterator[list[CommandWord]]:
    """Yield the words of each command; the variables may change between two. Raises BadInput for an open quote."""
    text = re.sub(r"\\[ \t]*\r?\n", " ", text).replace("\r\n", "\n")
    words: list[CommandWord] = []
    word: CommandWord | None = None
    for found in _SHELL_PART.finditer(text):
        kind = found.lastgroup
        if kind == "open":
            line = text.count("\n", 0, found.start()) + 1
            raise BadInput(f"The quote {found[0]} in line {line} is never closed.")
        if kind in ("end", "blank", "comment"):
            if kind == "end" and words:
                yield words
                words = []
            word = None
            continue
        if word is None:
            word = CommandWord()
            words.append(word)
        if kind == "single":
            word.text += found["single"]
        elif kind == "double":
            for inside in _DOUBLE_QUOTED.finditer(found["double"]):
                word.add(inside, variables)
        else:
            word.add(found, variables)
    if words:
        yield words


_INSTALL_COMMANDS = {"install", "upgrade", "template"}
_SHORT_OPTIONS = {"-n": "--namespace", "-f": "--values", "-l": "--labels", "-g": "--generate-name", "-i": "--install"}
_FLAG_OPTIONS = {
    "--install", "--generate-name", "--create-namespace", "--wait", "--wait-for-jobs", "--atomic", "--debug", "--devel",
    "--dependency-update", "--no-hooks", "--replace", "--skip-crds", "--verify", "--force", "--reuse-values",
    "--reset-values", "--disable-openapi-validation", "--take-ownership", "--rollback-on-failure", "--hide-notes",
    "--render-subchart-notes", "--cleanup-on-fail", "--pass-credentials", "--insecure-skip-tls-verify", "--plain-http",
    "--enable-dns", "--skip-schema-validation", "--hide-secret", "--dry-run",
}  # fmt: skip


@dataclass(slots=True)
class HelmLine:
    name: str = ""
    namespace: str = ""
    chart: str = ""
    labels: str = ""
    files: list[str] = field(default_factory=list)  # values files, in order
    settings: list[tuple[str, CommandWord]] = field(
        default_factory=list
    )  # options that set values, as Helm applies them
    unknown_variables: list[str] = field(
        default_factory=list
    )  # variables in name, namespace or paths that nobody has set
    other_commands: int = 0  # further helm commands in the text


def looks_like_helm(text: str) -> bool:
    """Whether pasted text has a `helm install`, `upgrade` or `template`, or begins with `--set`; else it is YAML."""
    return bool(re.search(r"(^|[\s;&$])helm\s+(install|upgrade|template)\b|\A\s*--set", text))


def parse_helm_line(text: str, variables: Mapping[str, str]) -> HelmLine:
    """The first helm command in a text. Raises BadInput if there is none or it cannot be parsed."""
    if text.lstrip().startswith("--set"):
        text = f"helm install {text}"
    found = [rest for words in split_commands(text, variables) if (rest := _install_arguments(words)) is not None]
    if not found:
        raise BadInput("There is no helm install command in this text.", "Paste it from `helm install` to its end.")
    line = HelmLine(other_commands=len(found) - 1)
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
    line.settings = [(option, word) for option in SET_OPTIONS for word in given.get(option, ())]
    return line


def _install_arguments(words: list[CommandWord]) -> list[CommandWord] | None:
    texts = [word.text for word in words]
    for at, text in enumerate(texts[:-1]):
        if text.rpartition("/")[2] == "helm" and texts[at + 1] in _INSTALL_COMMANDS:
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
            given.setdefault(option, []).append(CommandWord(value, word.unknown_variables))
        elif option not in _FLAG_OPTIONS and left:
            given.setdefault(option, []).append(left.pop(0))


def _known_text(line: HelmLine, command_word: CommandWord) -> str:
    line.unknown_variables += command_word.unknown_variables
    return "" if command_word.unknown_variables else command_word.text
