"""docs/scoreboard.md: other people's tests, how many of them agree with us, and why the others do not."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from tests.architecture.sizes import ROOT
from tests.rulers.suites import NOT_RUN, Result

PAGE = ROOT / "docs" / "scoreboard.md"
_MOST = 30  # names of cases that differ for one reason
_HEAD = """# Other people's rulers

Our own tests measure with rulers that we made. This page has those of others: the tests of the projects whose rules a4
follows, played with our code by `make rulers`, which writes this page and `tests/rulers/results.json`. Nothing of these
tests is in this repository: each suite comes from its package when it is run.

A case is the same if our answer is: for a cycle of Kueue, who holds quota in which flavors and on which nodes, and who
is evicted; for places, the domains and the words of the reason; for flavors, the mode and the reasons; for `--set`, the
values; for a kubeconfig, what is used of it, or that it is refused; for a script, that it ends well with our program
in it, and for an assertion of one, that it holds. "By default" are the cases that set no feature gate to anything but
its default.

| project | version | suite | cases | same | by default | same of these |
|---|---|---|---:|---:|---:|---:|
"""


def page(results: Iterable[Result]) -> str:
    listed = list(results)
    rows = []
    for (project, version), found in groupby(listed, key=lambda each: (each.project, each.version)):
        group = list(found)
        if group[0].unavailable:
            continue
        rows += [_row(project, version, f"`{each.suite}`", [each]) for each in group]
        rows.append(_row(project, version, "**all**", group))
    return _HEAD + "".join(rows) + "".join(_differences(listed)) + "".join(_left_out(listed))


def _row(project: str, version: str, suite: str, found: list[Result]) -> str:
    cases, same = sum(each.cases for each in found), sum(each.same for each in found)
    default, agree = sum(each.default for each in found), sum(each.same_default for each in found)
    share = f"{agree} ({100 * agree / default:.1f} %)" if default else "-"
    return f"| {project} | {version} | {suite} | {cases} | {same} | {default} | {share} |\n"


def _differences(results: Iterable[Result]) -> Iterator[str]:
    yield "\n## What differs, and why\n"
    for each in results:
        if each.different:
            yield f"\n{each.project} {each.version}, `{each.suite}`:\n\n"
            for why in dict.fromkeys(each.different[name] for name in sorted(each.different)):
                names = [_plain(name) for name in sorted(each.different) if each.different[name] == why]
                more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
                yield f"- {', '.join(names[:_MOST])}{more}: {why}\n"


def _left_out(results: Iterable[Result]) -> Iterator[str]:
    yield "\n## What was not run\n\n"
    for each in results:
        if each.unavailable:
            yield f"- {each.project} {each.version}: {each.unavailable}\n"
    yield from (f"- {what}: {why}\n" for what, why in NOT_RUN.items())


def _plain(name: str) -> str:
    """A name as code, whatever is in it."""
    shown = " ".join(name.split()) or "(empty)"
    fence = "``" if "`" in shown else "`"
    pad = " " if fence == "``" else ""
    return f"{fence}{pad}{shown if len(shown) <= 160 else shown[:157] + '...'}{pad}{fence}"
