"""Options of `a4 preflight`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.cli.launch_options import add_queue

if TYPE_CHECKING:
    import argparse

EXIT_CODES = "exit codes: 0 nothing fails, 1 a check fails, 2 usage, 3 may see nothing, 4 cannot reach the cluster"


def add_preflight(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.epilog = (
        "JSON: kind, namespace, recipe, name, summary, items with id, title, area, result (ok, warn, fail, not allowed "
        "to look, could not look, not applicable), evidence, reason, fix, command, repair (null, or kind, target, "
        "words, consequences: --fix ID does it), looks (at, what, outcome, seconds), at, seconds; with --fix: kind, "
        "done (what was done), items. " + EXIT_CODES
    )
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", default="",
                        help="what it needs, see `a4 recipes`; without one the cluster as a whole")  # fmt: skip
    parser.add_argument("-f", "--values", action="append", metavar="FILE", help="a YAML file of values, as for launch")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", help="a value of the recipe; may be repeated")
    add_queue(parser)
    parser.add_argument("--name", help="of the release that is to be (default: made from your user name)")
    parser.add_argument("--check", dest="checks", action="append", metavar="ID", help="only this one; may be repeated")
    parser.add_argument("--bucket", metavar="NAME", help="a bucket to look at, where no value names one")
    parser.add_argument(
        "--registry", metavar="LOCATION-docker.pkg.dev/PROJECT/NAME", help="where images are built into"
    )
    parser.add_argument("--fix", dest="mend", metavar="ID",
                        help="fix this one (add-on, services, repository, LocalQueue); asks first")  # fmt: skip
    parser.add_argument("-y", "--yes", action="store_true", help="with --fix: do not ask")
    parser.add_argument("--log", dest="looks", action="store_true", help="what was looked at, and what came of it")
    parser.add_argument("--json", action="store_true", help="as JSON")
