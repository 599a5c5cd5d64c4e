"""Options of `a4 launch` and `a4 values`.

Options of the commands about what was launched: history, releases, upgrade, rollback, stop, profiles.

Options of `a4 preflight`.
"""

from __future__ import annotations

import argparse
import textwrap

from practice.programs.faults import FAULT_VARIABLE, KINDS, PACE_VARIABLE


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


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_history(parser: argparse.ArgumentParser) -> None:
    """`a4 history`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "RUN is a run's number, or a job's name for its latest run.\n"
        "JSON: kind, note, items with number, recipe, name, namespace, context, server, outcome (waiting, running,\n"
        "succeeded, failed, stopped, unknown), why, launched, started, ended (seconds since the epoch, 0: not known),\n"
        "seconds, gpus, queue, peak_busbw, average_busbw (GB/s), loss, step, chart, who, uid, values, left_out."
    )
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        nargs="?",
        default="",
        help="only runs of this one; a run's number or name: that run",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", dest="run", metavar="RUN", help="one run: its values, and what differs from the last "
                      "successful one")  # fmt: skip
    what.add_argument("--diff", nargs=2, metavar=("RUN", "RUN"), help="values in which two runs differ")
    what.add_argument("--forget", dest="forgotten", nargs="+", metavar="RUN", help="drop runs; jobs are not touched")
    _json(parser)


def add_releases(parser: argparse.ArgumentParser) -> None:
    """`a4 releases`."""
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="the revisions of this one")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    _json(parser)


def add_upgrade(parser: argparse.ArgumentParser) -> None:
    """`a4 upgrade`."""
    parser.description = (
        "Give a release other values. Most of a JobSet is fixed once it has left its queue: the API server judges "
        "every object first, and where one may not change all stays as it is."
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", required=True, help="may be repeated")
    parser.add_argument("--dry-run", action="store_true", help="only say what would change, object by object")
    _json(parser)


def add_rollback(parser: argparse.ArgumentParser) -> None:
    """`a4 rollback`."""
    parser.description = "Go back to an earlier revision of a release, where the cluster lets all of it change."
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "revision", metavar="REVISION", nargs="?", type=int, default=None, help="default: the one before"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would change, object by object")
    _json(parser)


def add_stop(parser: argparse.ArgumentParser) -> None:
    """`a4 stop`."""
    parser.description = (
        "Stop jobs: uninstall their releases, or delete their JobSets, and say what went and what stays. One job is "
        "stopped at once; several, and leftovers, are asked for, or need --yes."
    )
    parser.add_argument("jobs", metavar="NAME", nargs="*", default=[])
    parser.add_argument(
        "--leftovers", action="store_true", help="what releases that are gone left behind (of NAMEs, or all)"
    )
    parser.add_argument("--data", action="store_true", help="with --leftovers: volumes and claims too")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="with --leftovers: of all namespaces")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go and what would stay")
    _json(parser)


def add_profiles(parser: argparse.ArgumentParser) -> None:
    """`a4 profiles`."""
    parser.description = (
        "Profiles are named sets of values that are laid under every form: queue, buckets, image, project. Each is a "
        "YAML file. Without options, list them, or show one."
    )
    parser.add_argument("name", metavar="NAME", nargs="?", default="")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", help="set a value; may be repeated")
    parser.add_argument("--unset", action="append", metavar="KEY", help="drop a value; may be repeated")
    parser.add_argument("--default", dest="by_default", action="store_true", help="use it when none is named")
    parser.add_argument("--no-default", dest="by_default", action="store_false", help="use none unless one is named")
    parser.add_argument("--delete", action="store_true", help="remove it")
    _json(parser)


def add_reuse(parser: argparse.ArgumentParser) -> None:
    """Of `a4 launch`: values from elsewhere, laid under those that are typed."""
    parser.add_argument(
        "--like", metavar="RUN", help="with the values of an earlier run: its number or name, see `a4 history`"
    )
    profile = parser.add_mutually_exclusive_group()
    profile.add_argument("--profile", metavar="NAME", help="with these values under them, see `a4 profiles`")
    profile.add_argument("--no-profile", action="store_true", help="not even the default one")


EXIT_CODES = "exit codes: 0 nothing fails, 1 a check fails, 2 usage, 3 may see nothing, 4 cannot reach the cluster"


def add_preflight(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.epilog = (
        "JSON: kind, namespace, recipe, name, summary, items with id, title, area, result (ok, warn, fail, not allowed "
        "to look, could not look, not applicable), evidence, reason, fix, command, repair (null, or kind, target, "
        "words, consequences: --fix CHECK does it), looks (at, what, outcome, seconds), at, seconds; with --fix: kind, "
        "done (what was done), items. " + EXIT_CODES
    )
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", default="",
                        help="what it needs, see `a4 recipes`; without one the cluster as a whole")  # fmt: skip
    parser.add_argument("-f", "--values", action="append", metavar="FILE", help="a YAML file of values, as for launch")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", help="a value of the recipe; may be repeated")
    add_queue(parser)
    parser.add_argument("--name", help="of the release that is to be (default: made from your user name)")
    parser.add_argument(
        "--check",
        dest="checks",
        action="append",
        metavar="CHECK",
        help="only this check, such as localqueue; may be repeated",
    )
    parser.add_argument("--bucket", metavar="NAME", help="a bucket to look at, where no value names one")
    parser.add_argument(
        "--registry", metavar="LOCATION-docker.pkg.dev/PROJECT/NAME", help="where images are built into"
    )
    parser.add_argument("--fix", dest="mend", metavar="CHECK",
                        help="fix this one (add-on, services, repository, LocalQueue); asks first")  # fmt: skip
    parser.add_argument("-y", "--yes", action="store_true", help="with --fix: do not ask")
    parser.add_argument("--log", dest="looks", action="store_true", help="what was looked at, and what came of it")
    parser.add_argument("--json", action="store_true", help="as JSON")
