"""The rules of the code that a machine keeps: sizes, docstrings, and what is imported when."""

import ast
import builtins
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.sizes import parts

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("console", "parts/*/src", "practice", "screens")
SOURCES = sorted(path for place in PLACES for path in ROOT.glob(f"{place}/**/*.py"))


def test_no_part_has_grown_without_a_reason() -> None:
    assert [part.excess for part in parts() if part.excess] == []


@pytest.mark.parametrize(
    ("reason", "accepted"),
    [
        (None, False),
        ({"bought": "an alarm for kept pods", "deleted": "nothing"}, False),
        ({"bought": "an alarm for kept pods", "deleted": "the second reader of exit codes"}, True),
    ],
)
def test_two_hundred_lines_more_need_a_reason(tmp_path: Path, reason: dict[str, str] | None, accepted: bool) -> None:
    (tmp_path / "console").mkdir()
    (tmp_path / "console" / "more.py").write_text("pass\n" * 1200)
    bounds = '[part.console]\nfolders = ["console"]\nlines = 1000\n'
    for key, words in (reason or {}).items():
        bounds += '[[change]]\npart = "console"\nby = 200\n' * (key == "bought") + f'{key} = "{words}"\n'
    (tmp_path / "size.toml").write_text(bounds)
    try:
        excesses = [part.excess for part in parts(tmp_path, tmp_path / "size.toml")]
    except ValueError as error:
        excesses = [str(error)]
    assert (excesses == [""]) is accepted


def test_the_formatter_decides_but_for_tables() -> None:
    assert sum(path.read_text().count("# fmt: skip") for path in SOURCES) <= 57


def test_what_console_says_names_commands_and_no_keys_of_a_screen() -> None:
    named = re.compile(r"""[\s("'](\S|F\d+|ctrl\+\S)(?: on [^"']*)?, or a4 """)
    places = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "console")
        for found in named.finditer(path.read_text())
    ]
    assert places == []


@pytest.mark.slow(reason="parses every module")
def test_docstrings_name_only_what_there_is() -> None:
    """A name in backticks is one of the module itself, of its folder, or of a module that it imports."""
    code = {path: Docstrings(path) for path in SOURCES}
    modules = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).rpartition(".src.")[2] for path in code}
    by_module = {modules[path].removesuffix(".__init__"): found.names for path, found in code.items()}
    defined: dict[Path, set[str]] = {}
    for path, found in code.items():
        defined.setdefault(path.parent, set()).update(found.defined, (path.stem, path.parent.name))
    places = {name for path in SOURCES for name in path.relative_to(ROOT).with_suffix("").parts}
    unknown = []
    for path, found in code.items():
        known = found.names | defined[path.parent] | places | NAMED_BESIDES
        known = known.union(*(by_module.get(module, ()) for module in found.imports))
        unknown += [
            f"{path.relative_to(ROOT)}: {name[1]}"
            for text in found.texts
            for name in IN_BACKTICKS.finditer(text)
            if not known.issuperset(name[1].split("."))
        ]
    assert unknown == []


IN_BACKTICKS = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")
NAMED_BESIDES = {"__dict__", "cp", "create", "env", "grep", "item", "loss", "scp", "sh", *dir(builtins)}
"""Commands of shells, rights, and what stands in the code of other people."""


class Docstrings:
    """The docstrings of a module, and the names in the rest of it."""

    def __init__(self, path: Path) -> None:
        self.texts: list[str] = []
        self.defined: set[str] = set()
        self.imports: set[str] = set()
        lines = path.read_text().splitlines()
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                self.texts.append(node.value.value)
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    lines[line - 1] = ""
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.defined.add(node.name)
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imports |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        self.names = set(re.findall(r"\w+", "\n".join(lines)))


PRODUCT = [path for path in SOURCES if not path.is_relative_to(ROOT / "practice")]
MAX_METHODS = 25
LARGER = {
    "ConsoleApp": 26, "Form": 44, "FloorMap": 30, "FormModel": 30, "HangTab": 30, "JobScreen": 31,
    "LaunchScreen": 48, "LiveScreen": 44, "LogLines": 46, "LogTab": 29,
    "ResourceTable": 40, "TrainingParser": 34, "WatchedCluster": 36,
}  # fmt: skip
"""Classes with more methods than that, and how many each has at most: a number only becomes less."""


@pytest.mark.slow(reason="parses every module")
def test_a_class_name_means_one_thing_and_a_class_has_few_methods() -> None:
    found = [each for path in PRODUCT for each in ast.parse(path.read_text()).body if isinstance(each, ast.ClassDef)]
    assert [name for name, times in Counter(each.name for each in found).items() if times > 1] == []
    methods = {each.name: sum(isinstance(part, FUNCTIONS) for part in each.body) for each in found}
    assert {name: number for name, number in methods.items() if number > LARGER.get(name, MAX_METHODS)} == {}


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.slow(reason="parses every module")
def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for types alone count too."""
    console_and_screens = [path for path in PRODUCT if not path.is_relative_to(ROOT / "parts")]
    whole = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in console_and_screens}
    names = {name.removesuffix(".__init__"): path for name, path in whole.items()}
    imports = {name: imported_modules(path) & names.keys() - {name} for name, path in names.items()}
    while free := {name for name, others in imports.items() if not others & imports.keys()}:
        imports = {name: others for name, others in imports.items() if name not in free}
    while top := imports.keys() - set().union(*imports.values()):
        imports = {name: others for name, others in imports.items() if name not in top}
    assert sorted(imports) == []


def imported_modules(path: Path) -> set[str]:
    """Modules, and names in modules, that one imports anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found


@pytest.mark.slow(reason="parses every module")
def test_every_module_says_what_it_is() -> None:
    assert [str(path.relative_to(ROOT)) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_few_patterns_of_a_module_that_reads_logs_are_compiled_before_they_are_used() -> None:
    read = [path for path in SOURCES if path.parts[len(ROOT.parts) + 1] in {"logs", "metrics", "scheduling"}]
    early = {path.name: len(re.findall(r"(?m)^(?:\w.* = |    \().*\bre\.compile\(", path.read_text())) for path in read}
    assert {name: number for name, number in early.items() if number > 8} == {}


@pytest.mark.slow(reason="starts programs of its own")
@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            "import console.session, console.launch.install",
            ["textual", "rich", "kubernetes", "helm_python", "paramiko"],
        ),
        ("import console.attach.tunnel.local_forward", ["kueue_rules.admission_cycle", "kueue_rules.virtual_cluster"]),
        ("import screens.__main__", ["textual", "kubernetes", "helm_python", "paramiko", "google.cloud", "jsonschema"]),
        ("import screens.app", ["kubernetes", "helm_python", "paramiko", "google.cloud", "jsonschema"]),
    ],
)
def test_heavy_libraries_wait_until_they_are_needed(statement: str, absent: list[str]) -> None:
    script = f"{statement}\nimport sys\nprint([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
