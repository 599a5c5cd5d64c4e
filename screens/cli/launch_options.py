"""Options of `a4 launch` and `a4 values`."""

from __future__ import annotations

import argparse
import textwrap

from console.practice.programs.faults import FAULT_VARIABLE, KINDS, PACE_VARIABLE


def add_launch(parser: argparse.ArgumentParser) -> None:
    """`a4 launch`; where its values come from besides is added by `add_reuse`."""
    kinds = "".join(f"\n  {kind:9}{what}" for kind, (_, what) in KINDS.items())
    parser.epilog = (
        f"On the practice cluster a job goes wrong when it is told to: --set env.{FAULT_VARIABLE}=nan:20, which is "
        f"KIND:STEP\nor KIND:STEP:POD, several with commas between. --set env.{PACE_VARIABLE}=0.2 makes its steps "
        f"shorter, in seconds.{kinds}\n\n{textwrap.fill(parser.epilog or '', 118)}"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", default="", help="see `a4 recipes`; not with --like")
    parser.add_argument(
        "-f", "--values", action="append", metavar="FILE",
        help="a YAML file of values, - for standard input, see `a4 values`; may be repeated, the last one wins",
    )  # fmt: skip
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", help="a value of the recipe; may be repeated")
    add_queue(parser)
    parser.add_argument("--name", help="of the release and its JobSet (default: made from your user name)")
    parser.add_argument(
        "--no-preflight", dest="preflight", action="store_false",
        help="launch without a look at what it needs: image, buckets, claims, Secrets, queue, quota, networks",
    )  # fmt: skip
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--dry-run", action="store_true",
        help="ask the API server, say whether it fits now, change nothing, print the manifests",
    )  # fmt: skip
    what.add_argument(
        "--diff", dest="against", metavar="RUN", nargs="?", const="",
        help="print what differs from the recipe's defaults, or from an earlier run; launch nothing",
    )  # fmt: skip
    what.add_argument("--helm", dest="show_helm", action="store_true", help="print the helm command; launch nothing")
    what.add_argument("--wait", action="store_true", help="until the job has ended; exit 1 if it failed")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_queue(parser: argparse.ArgumentParser) -> None:
    """The LocalQueue, for launch and preflight."""
    parser.add_argument(
        "--queue", metavar="NAME|none",
        help="the LocalQueue; none goes past Kueue (default: the namespace's only one, else one that has room for it)",
    )  # fmt: skip


def add_values(parser: argparse.ArgumentParser) -> None:
    """`a4 values`."""
    parser.epilog = "Change what differs, drop the rest, and launch it: a4 launch RECIPE -f FILE"
    parser.add_argument("recipe", metavar="RECIPE", help="see `a4 recipes`")
    parser.add_argument("--json", action="store_true", help="the fields of the form, with limits and choices")
