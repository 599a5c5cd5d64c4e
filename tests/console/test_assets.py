"""chart/ and launchers/ are found, in a checkout and in a wheel."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from console import assets

ROOT = Path(__file__).resolve().parents[2]


def test_the_checkout_comes_first() -> None:
    assert assets.chart_folder() == ROOT / "chart"
    assert assets.launchers_folder() == ROOT / "launchers"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The parts of console that this needs, as a wheel lays them down."""
    package = tmp_path / "console"
    package.mkdir()
    for name in ("__init__.py", "assets.py", "errors.py"):
        shutil.copy(ROOT / "console" / name, package)
    for name in ("chart", "launchers"):
        shutil.copytree(ROOT / name, package / "_data" / name)
    return tmp_path


def found(site: Path) -> str:
    code = "from console import assets; print(assets.chart_folder(), assets.launchers_folder())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(site)},
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_a_wheel_has_them_inside(installed: Path) -> None:
    data = installed / "console" / "_data"
    assert found(installed) == f"{data / 'chart'} {data / 'launchers'}"


def test_another_packages_folder_of_the_same_name_is_not_taken(installed: Path) -> None:
    (installed / "chart").mkdir()
    assert found(installed).startswith(str(installed / "console" / "_data" / "chart"))


def test_a_broken_installation_is_reported(installed: Path) -> None:
    shutil.rmtree(installed / "console" / "_data" / "chart")
    assert found(installed).endswith(
        "The folder chart/ of this installation is missing or incomplete. Install a4-console again."
    )


def test_a_checkout_tells_its_commit() -> None:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    assert re.fullmatch(rf"\d+\.\d+\.\d+ \(commit {commit}(-dirty)?\)", assets.release_name())


@pytest.mark.parametrize("built", ["51e6f05", ""])
def test_a_wheel_tells_what_it_was_built_from(installed: Path, built: str) -> None:
    if built:
        (installed / "console" / "_data" / "commit").write_text(f"{built}\n")
    code = "from console import assets; print(assets.release_name())"
    done = subprocess.run([sys.executable, "-c", code], cwd=installed, capture_output=True, text=True, check=True)
    assert done.stdout.strip().partition(" ")[2] == (f"(commit {built})" if built else "")
