"""Options of the commands about what was launched: history, releases, upgrade, rollback, stop, profiles."""

from __future__ import annotations

import argparse


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
