"""The packages that recipes install fit each other and B200: pip resolves them against an index that was recorded.

tests/fixtures/package_index.json holds name -> version -> what it requires, as pip reported it for Python 3.12 on
28 November 2026: what the lists resolve to, and newer versions that ask for something else. Of packages that are built,
and of PyTorch, it is what their own setup says; the commit of transformers has the requirements of 4.57.1; httpx, typer
and ninja stand there without theirs.
"""

from __future__ import annotations

import ensurepip
import json
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.chart.plans import CATALOGUE

INDEX = json.loads((Path(__file__).parents[1] / "fixtures" / "package_index.json").read_text())
INSTALLING = [
    "qwen3-30b-pretrain", "qwen3-next-pretrain", "qwen3-next-sft", "qwen3-next-sft-json", "qwen3-next-lustre",
    "qwen3-next-to-mcore",
]  # fmt: skip
FROM_GIT = {"transformers": "transformers==4.57.0.dev0", "TransformerEngine": ""}
"""What a commit installs; Transformer Engine is no package of the index, and asks for PyTorch alone."""


def lists(recipe: str) -> tuple[list[str], list[str]]:
    values = CATALOGUE.defaults(recipe)
    found: object = values
    for name in ("recipe", "packages"):
        assert isinstance(found, dict)
        found = found[name]
    assert isinstance(found, dict)
    return found["plain"], found["built"]


def named(package: str) -> str:
    commit = re.fullmatch(r"git\+https://.*/(\w+)\.git@[0-9a-f]{40}", package)
    return FROM_GIT[commit[1]] if commit else package


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index as a folder of wheels that hold nothing but what they require."""
    folder = tmp_path_factory.mktemp("wheels")
    for name, versions in INDEX.items():
        for version, requires in versions.items():
            plain = name.replace("-", "_")
            lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Provides-Extra: cli"]
            lines += [f"Requires-Dist: {one}" for one in requires]
            info = f"{plain}-{version}.dist-info"
            with zipfile.ZipFile(folder / f"{plain}-{version}-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"{info}/METADATA", "\n".join([*lines, "", ""]))
                wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                wheel.writestr(f"{info}/RECORD", "")
    return folder


def resolved(shelf: Path, *packages: str, held: dict[str, str] | None = None) -> dict[str, str]:
    """Name -> version, as pip would install them; `held` stays as it is."""
    bundled = Path(ensurepip.__file__).parent / "_bundled"
    (pip,) = Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or bundled).glob("pip-*.whl")
    constraints = shelf / "held.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in (held or {}).items()))
    words = [
        sys.executable, f"{pip}/pip", "install", "--isolated", "--dry-run", "--ignore-installed", "--quiet",
        "--no-index", "--find-links", str(shelf), "-c", str(constraints), "--report", "-", *packages,
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [one["metadata"] for one in json.loads(done.stdout)["install"]]
    return {one["name"]: one["version"] for one in found}


@pytest.mark.parametrize("recipe", INSTALLING)
def test_every_version_is_bounded(recipe: str) -> None:
    for package in [part for one in lists(recipe) for part in one]:
        assert re.search(r"==|~=|<|\.git@[0-9a-f]{40}$", package), package


@pytest.mark.slow(reason="pip resolves three times")
@pytest.mark.parametrize("recipe", ["qwen3-30b-pretrain", "qwen3-next-pretrain"])
def test_the_packages_fit_each_other(shelf: Path, recipe: str) -> None:
    plain, built = lists(recipe)
    first = resolved(shelf, *filter(None, map(named, plain)))
    assert first["transformers"].startswith("4.57")
    assert first["huggingface-hub"].startswith("0.")
    for package in filter(None, map(named, built)):
        later = resolved(shelf, package, held=first)
        assert later.items() <= (first | {name: later[name] for name in later if name not in first}).items()
    if built:
        # Before 3.5 its assembler knows no sm_100.
        assert tuple(map(int, first["triton"].split(".")[:2])) >= (3, 5)


@pytest.mark.slow(reason="pip resolves twice")
def test_a_package_without_a_bound_would_replace_transformers_and_is_held(shelf: Path) -> None:
    assert resolved(shelf, "flash-linear-attention")["transformers"] == "5.6.2"
    held = {"transformers": "4.57.0.dev0"}
    assert resolved(shelf, "flash-linear-attention", held=held)["flash-linear-attention"] == "0.5.2"
