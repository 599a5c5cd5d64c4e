"""Run every recipe's rendered pods for real on this machine, and compare how they end with what is expected.

`python -m tests.rehearsal [--of COMMIT] [--only WORD] [--jobs N]`: chart and launchers of this tree, or of a commit.
`--changed`: what a change can have touched, by the digests of rehearsed.json, which each case that came out renews.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from difflib import unified_diff
from pathlib import Path
from time import monotonic
from typing import Any

from tests.rehearsal.cases import Case, all_cases
from tests.rehearsal.judging import Row, judged
from tests.rehearsal.recorded import differences
from tests.rehearsal.unchanged import digests, name_of, record, recorded

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {
    "sshd": "openssh-server", "ssh-keygen": "openssh-client", "mpirun": "openmpi-bin", "mpicc": "libopenmpi-dev",
    "gcc": "gcc", "ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "mount": "mount",
}  # fmt: skip
"""Program -> the Debian package that brings it."""
OWN_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
RENDER = "tests/rehearsal/render.py"
ONE_CASE_SECONDS = 150
MAX_REPEATED = 8
"""Cases that may be played a second time; when more differ, the fault is not the machine's."""


def say(line: str) -> None:
    """One line of the table."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def lacking() -> str:
    """Why nothing can be rehearsed here, empty when all is there."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = sorted({package for program, package in NEEDS.items() if shutil.which(program, path=path) is None})
    if missing:
        return f"this machine lacks {', '.join(missing)}: apt-get install {' '.join(missing)}"
    if os.geteuid() != 0:
        return "only root may make the namespaces of the nodes: run it as root, or in a container that is privileged"
    tried = subprocess.run(
        [*OWN_NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"namespaces are not allowed here ({tried.stderr.strip()}): take a machine, or a privileged container"
    return ""


def tree_of(commit: str, folder: Path) -> Path:
    """The files of a commit, in a folder.

    A commit is rendered by its own render.py, which fits its modules; one that is older than that file, by the first.
    """
    folder.mkdir()

    def unpack(commit: str, *paths: str) -> None:
        archive = subprocess.run(["git", "archive", commit, *paths], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)

    unpack(commit)
    if not (folder / RENDER).exists():
        added = ["git", "log", "--diff-filter=A", "--format=%H", "--", RENDER]
        first = subprocess.run(added, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()[-1]
        unpack(first, RENDER)
    return folder


def rendered(tree: Path, cases: Sequence[Case]) -> list[Any]:
    """The manifests of each job of each case, or why the case is refused."""
    launches = [
        {"recipe": case.recipe, "values": case.values, "release": release}
        for case in cases
        for release in case.releases
    ]
    done = subprocess.run(
        [sys.executable, str(tree / RENDER)],
        input=json.dumps(launches), env=os.environ | {"PYTHONPATH": str(tree)}, cwd=tree,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"The chart cannot be rendered: {done.stderr.strip()}")
    each = iter(json.loads(done.stdout))
    found = [[next(each) for _ in case.releases] for case in cases]
    return [next((job for job in jobs if isinstance(job, str)), jobs) for jobs in found]


def keys(folder: Path) -> str:
    """Make a person's key pair and those of the release; return the public half of the person's."""
    for name, kind in (
        ("person", ("ed25519",)),
        ("id_pods", ("ecdsa", "-m", "PEM")),
        ("host_key", ("ecdsa", "-m", "PEM")),
    ):
        command = ["ssh-keygen", "-q", "-N", "", "-C", "anna@laptop", "-f", str(folder / name), "-t", *kind]
        subprocess.run(command, check=True)
    return (folder / "person.pub").read_text().strip()


def played(case: Case, manifests: Any, folder: Path, tools: Path) -> Row:
    """Play one case in namespaces of its own."""
    if isinstance(manifests, str):
        return Row(case, "refused", [manifests])
    folder.mkdir()
    for name in ("person", "person.pub"):
        shutil.copy(tools / name, folder / name)
    (folder / "case.json").write_text(json.dumps(asdict(case) | {"manifests": manifests, "tools": str(tools)}))
    inside = 'mount -t tmpfs tmpfs "$1/space" && exec "$2" -m tests.rehearsal.play "$1"'
    (folder / "space").mkdir()
    words = [*OWN_NAMESPACES, "bash", "-c", inside, "play", str(folder), sys.executable]
    with (folder / "said").open("w") as said:
        try:
            subprocess.run(words, cwd=ROOT, stdout=said, stderr=said, check=False, timeout=ONE_CASE_SECONDS)
        except subprocess.TimeoutExpired:
            return Row(case, "not judged", [f"the rehearsal itself took more than {ONE_CASE_SECONDS} s"])
    seen = folder / "seen.json"
    if not seen.exists():
        return Row(case, "not judged", (folder / "said").read_text().strip().splitlines()[-3:])
    return judged(case, json.loads(seen.read_text()), manifests)


def played_all(cases: Sequence[Case], manifests: Sequence[Any], folder: Path, tools: Path, jobs: int) -> list[Row]:
    """Play these cases, each in a folder of its own, some at the same time."""
    folder.mkdir()
    folders = [folder / f"case{number}" for number in range(len(cases))]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(played, cases, manifests, folders, [tools] * len(cases)))


def repeated(rows: Sequence[Row], manifests: Sequence[Any], folder: Path) -> list[Row]:
    """Play what differs once more, alone: what differs again counts.

    The waits are seconds of the wall clock. A machine that stands still for a minute (seen on virtual machines, for all
    cases that ran at that moment) takes them away from every pod at once; a launcher that is wrong is wrong again.
    """
    differ = [number for number, row in enumerate(rows) if not row.good]
    if not 0 < len(differ) <= MAX_REPEATED:
        return list(rows)
    say(f"{len(differ)} of {len(rows)} differ; each is played once more, alone. What was seen the first time:")
    table([rows[number] for number in differ])
    cases = [rows[number].case for number in differ]
    again = played_all(cases, [manifests[number] for number in differ], folder / "repeated", folder, 1)
    found = dict(zip(differ, again, strict=True))
    return [found.get(number, row) for number, row in enumerate(rows)]


def table(rows: Sequence[Row]) -> None:
    """Recipe, nodes, fault, expected, seen."""
    ordered = sorted(rows, key=lambda row: (row.case.recipe, row.case.fault != "none", row.case.fault, row.case.nodes))
    say(f"{'recipe':24}{'nodes':>5}  {'fault':36}{'expected':22}seen")
    for row in ordered:
        case = row.case
        expected = ", then ".join(str(one) for one in case.expected)
        mark = "" if row.good else "   <-- differs"
        say(f"{case.recipe:24}{case.nodes:>5}  {case.fault:36}{expected:22}{row.seen}{mark}")
        for problem in row.problems:
            say(f"{'':31}{problem}")


def main() -> int:
    """Play all cases; 1 when any differs from what is expected, 2 when nothing can be rehearsed here."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--of", default="", metavar="COMMIT", help="the chart and launchers of this commit")
    asked.add_argument(
        "--only", default="", metavar="WORD", help="cases whose recipe or fault has this word; several with commas"
    )
    asked.add_argument("--jobs", type=int, default=4, help="cases at the same time")
    asked.add_argument("--keep", default="", metavar="FOLDER", help="leave the logs of all pods there")
    asked.add_argument("--changed", action="store_true", help="only cases that were not rehearsed as they are now")
    asked.add_argument("--record", action="store_true", help="only the cases that the practice cluster is made of")
    told = asked.parse_args()
    why = lacking()
    if why:
        say(f"Nothing was rehearsed: {why}.")
        return 2
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="a4-rehearsal-") as made:
        folder = Path(told.keep or made)
        folder.mkdir(exist_ok=True)
        tree = tree_of(told.of, folder / "tree") if told.of else ROOT
        public = keys(folder)
        words = [word for word in told.only.split(",") if word]
        cases = [
            case
            for case in all_cases()
            if not words or any(word in f"{case.recipe} {case.fault} {case.nodes}" for word in words)
        ]
        cases = [case for case in cases if case.is_recorded or not told.record]
        for case in cases:
            case.values["ssh"] = {"publicKey": public}
        subprocess.run(
            [
                "mpicc",
                "-O1",
                "-o",
                str(folder / "all_reduce_perf"),
                str(ROOT / "tests/rehearsal/standins/all_reduce.c"),
            ],
            check=True,
        )
        libcuda = ["-shared", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1"), "-x", "c", "/dev/null"]
        subprocess.run(["gcc", *libcuda], check=True)
        manifests = rendered(tree, cases)
        digest = digests(cases, manifests, public)
        if told.changed:
            known = recorded()
            wanted = [number for number, case in enumerate(cases) if known.get(name_of(case)) != digest[number]]
            say(f"{len(cases) - len(wanted)} of {len(cases)} were rehearsed as they are now")
            cases, digest = [cases[number] for number in wanted], [digest[number] for number in wanted]
            manifests = [manifests[number] for number in wanted]
        rows = played_all(cases, manifests, folder / "cases", folder, told.jobs)
        if not told.of:
            rows = repeated(rows, manifests, folder)
            record(rows, digest, frozenset(map(name_of, all_cases())))
        changed = {} if told.of else recorded_anew(rows)
        if changed:
            # Pods run beside each other, on a busy machine in another order: what differs counts when it differs again.
            again = [number for number, case in enumerate(cases) if case.is_recorded]
            say(differing(changed))
            say("The launchers printed something else than is recorded: these cases are played once more.")
            replayed = played_all(
                [cases[n] for n in again], [manifests[n] for n in again], folder / "again", folder, told.jobs
            )
            changed = recorded_anew(replayed)
    table(rows)
    bad = [row for row in rows if not row.good]
    of = f" at {told.of}" if told.of else ""
    took = f"{monotonic() - began:.0f} s"
    say(f"{len(rows)} rehearsed{of} in {took}: {len(rows) - len(bad)} as expected, {len(bad)} differ")
    if bad:
        say("These differ:")
        table(bad)
    if changed:
        say(differing(changed))
    for path, (_, text) in changed.items():
        path.write_text(text)
        say(f"{path} was written anew, as the launchers do something else now: look at the difference and commit it")
    return 1 if bad or changed else 0


def recorded_anew(rows: Sequence[Row]) -> dict[Path, tuple[str, str]]:
    """What these rows change of the recording, when all that it needs was seen and is right."""
    needed = {(case.recipe, case.nodes, case.fault) for case in all_cases() if case.is_recorded}
    good = {(row.case.recipe, row.case.nodes, row.case.fault) for row in rows if row.good}
    return differences([row for row in rows if row.case.is_recorded]) if needed <= good else {}


def differing(changed: Mapping[Path, tuple[str, str]]) -> str:
    """What is recorded beside what was seen, as a difference of lines."""
    lines = [
        line
        for path, (known, text) in changed.items()
        for line in unified_diff(
            known.splitlines(), text.splitlines(), f"{path.name}, recorded", f"{path.name}, seen", lineterm=""
        )
    ]
    return "\n".join(lines[:200])


if __name__ == "__main__":
    sys.exit(main())
