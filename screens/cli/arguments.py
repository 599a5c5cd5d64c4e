"""The command line's options: one class per command, whose fields declare their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn, Self, TypeVar, dataclass_transform

from console.connection_settings import Settings

EXIT_CODES = (
    "exit codes: 0 ok, 1 it failed or what was named is not there, 2 usage, 3 not allowed, 4 cannot reach the cluster; "
    'with --json standard error is JSON too, an object a line: {"error": what failed and why, "hint": what to do '
    'next}, {"note": …}'
)
EXIT_ALARM = 5
"""The exit code of a command that found an alarm."""
ALL_EXIT_CODES = (
    f"{EXIT_CODES}; of a4 why, a4 training, a4 wait, a4 alarms and a4 launch --wait: 1 too where the job failed, 5 an "
    "alarm (a run that diverged or stalled, …), 6 timed out, 7 the job ended without it; of a4 nodes --faulty: 5 one is"
)
TEST_KEYS = (
    "program, version, ranks, rows: size, count, type, redop, root, out_of_place and in_place: time_us, algbw, busbw, "
    "wrong; avg_busbw, out_of_bounds, ok, finished, error"
)
"""JSON keys of an NCCL test."""
STEP_KEYS = "step, total, loss, grad_norm, lr, step_time_s, tflops_per_gpu, tokens_per_s, skipped, nan, extra"
"""JSON keys of a step of training."""


class _RequiredValue:
    """The default value of a field that has to be typed."""


class OptionField(NamedTuple):
    default: Any
    arguments: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = ()
    """(flags, keyword arguments) of each `add_argument` call of argparse; empty if nothing is typed for the field.
    Options with the same `apart` exclude each other; `group` is a heading of the help."""


def word(metavar: str | None = None, *, default: Any = _RequiredValue, **given: Any) -> Any:
    """Declare a positional argument, `metavar` in the help (None: the field's name); `given` as of `add_argument`."""
    optional = {"?": "", "*": ()}.get(given.get("nargs", ""), _RequiredValue)
    default = optional if default is _RequiredValue else default
    if default is not _RequiredValue:
        given["default"] = default
    elif "choices" not in given:
        given.setdefault("type", _not_empty)
    return OptionField(default, (((), {"metavar": metavar, **given}),))


def option(*flags: str, **given: Any) -> Any:
    """Declare a command-line option; its default is None if it has a `type`, else ""."""
    default = given.pop("default", None if "type" in given else "")
    return OptionField(() if given.get("action") == "append" else default, ((flags, given),))


def flag(*flags: str, default: bool = False, **given: Any) -> Any:
    """Declare an option without a value, which sets the field to True, or to False if `default` is True."""
    return OptionField(default, ((flags, {"action": "store_false" if default else "store_true", **given}),))


def option_of_flags(*choices: Any) -> Any:
    """Declare a field that each of several flags sets to another value; None if none is given."""
    return OptionField(None, tuple(typed for each in choices for typed in each.arguments))


def json_flag(help_text: str = "as JSON", **given: Any) -> Any:
    return flag("--json", help=help_text, **given)


def yes_flag(help_text: str = "do not ask for confirmation") -> Any:
    return flag("-y", "--yes", help=help_text)


def container_option(help_text: str = "instead of the one that does the work") -> Any:
    return option("-c", "--container", metavar="C", help=help_text)


def _not_empty(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("empty")
    return text


def add_arguments(parser: argparse.ArgumentParser, options: type[Options]) -> None:
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for name in _in_order(options):
        for flags, given in options.fields[name].arguments:
            apart, group = given.get("apart", ""), given.get("group", "")
            if apart and apart not in groups:
                groups[apart] = parser.add_mutually_exclusive_group()
            if group and group not in groups:
                groups[group] = parser.add_argument_group(group)
            rest = {key: value for key, value in given.items() if key not in {"apart", "group"}}
            if flags:
                groups[apart or group].add_argument(*flags, dest=name, **rest)
            else:
                parser.add_argument(name, **rest)


def _in_order(options: type[Options]) -> list[str]:
    """The field names of an options class in order; an inherited one is where the last class declares it."""
    names: dict[str, None] = {}
    for each in reversed(options.__mro__[:-2]):
        for name in each.__annotations__:
            names.pop(name, None)
            names[name] = None
    return list(names)


def _number_type(kind: type[int] | type[float], fits: Callable[[float], bool], words: str) -> Callable[[str], Any]:
    """An argparse type for a number that `fits` accepts; `words` describes valid numbers."""

    def number(text: str) -> float:
        found = kind(text)
        if not fits(found):
            raise argparse.ArgumentTypeError(words)
        return found

    number.__name__ = kind.__name__  # argparse names it where the text is no number at all
    return number


speed = _number_type(float, lambda number: 0 < number <= 1000, "a number above 0, at most 1000")
count = _number_type(int, lambda number: number >= 0, "a whole number, not below 0")
positive = _number_type(int, lambda number: number >= 1, "a number above 0")
above_zero = _number_type(float, lambda number: 0 < number < float("inf"), "a number above 0")
seconds_of_a_day = _number_type(float, lambda number: 0 < number <= 86400, "seconds above 0, at most a day")
seconds_of_an_hour = _number_type(float, lambda number: 0 < number <= 3600, "seconds above 0, at most 3600")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _TypedOptions:
    """The base of options classes, which collects their fields; a dataclass would cost a millisecond each."""

    fields: ClassVar[Mapping[str, OptionField]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: vars(cls).get(name, _RequiredValue) for name in cls.__annotations__}
        cls.fields = {
            **cls.fields,
            **{name: each if isinstance(each, OptionField) else OptionField(each) for name, each in own.items()},
        }

    def __init__(self, **given: Any) -> None:
        values = {name: each.default for name, each in self.fields.items()} | given
        wrong = {*given} - {*self.fields} or {name for name, value in values.items() if value is _RequiredValue}
        if wrong:
            raise TypeError(f"{type(self).__name__}: unknown or missing: {', '.join(sorted(wrong))}")
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} of {type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))

    def replaced(self, **changes: Any) -> Self:
        """A copy with these values changed."""
        return type(self)(**{**vars(self), **changes})


class Options(_TypedOptions):
    """The options common to all commands; the module of a command adds those of that command."""

    command: str = ""
    """The command's name; empty for the console itself."""
    demo: bool = flag("--demo", group="cluster", help="the practice cluster: no cluster needed")
    demo_speed: float | None = option(
        "--demo-speed",
        type=speed,
        metavar="N",
        group="cluster",
        help="speed-up of the practice cluster; alarms wait for seconds of real time all the same",
    )
    """The speed-up of the practice cluster; None: real time, and faster in the tour."""
    seed: int = option(
        "--seed",
        type=int,
        metavar="S",
        default=0,
        group="cluster",
        help="the same seed gives the same run of the practice cluster",
    )
    kubeconfig: Path | None = option(
        "--kubeconfig", type=Path, metavar="FILE", group="cluster", help="instead of $KUBECONFIG or ~/.kube/config"
    )
    context: str = option("--context", metavar="C", group="cluster", help="instead of the kubeconfig's current one")
    namespace: str = option("-n", "--namespace", metavar="N", group="cluster", help="instead of the context's")
    read_only: bool = flag(
        "--read-only",
        group="cluster",
        help="nothing that changes the cluster can be done; what only reads inside pods (ls, cp from one, facts, "
        "doctor) still runs there",
    )
    json: bool = False
    """Whether to print JSON; a command with `--json` overrides this field by its own."""

    def settings(self, kubeconfig: Path | None = None) -> Settings:
        """The connection settings; `kubeconfig` is that of a practice cluster, if one was started."""
        return Settings(
            kubeconfig=kubeconfig or self.kubeconfig,
            context="" if kubeconfig else self.context,
            namespace=self.namespace,
            read_only=self.read_only,
            practice=self.demo,
            speed=self.demo_speed or 1.0 if self.demo else 1.0,
        )


class JsonOptions(Options):
    json: bool = json_flag()


class PodOptions(Options):
    job: str = word("JOB", help="or pod/NAME, without an index")
    rank_text: str = word("POD", nargs="?", help="index of the pod in the job (0), or REPLICATED/INDEX")


_OptionsT = TypeVar("_OptionsT", bound=Options)


class Command(NamedTuple, Generic[_OptionsT]):
    run: Callable[[_OptionsT], int | Coroutine[Any, Any, int]]
    """The command's function; returns the exit code."""
    options: type[_OptionsT]
    """The class of the command's options, with their defaults."""
    usage: str | None = None
    description: str = ""
    """The description in the command's help; if empty, its line in the list of commands."""
    epilog: str | Callable[[], str] = EXIT_CODES

    def configure_parser(self, parser: argparse.ArgumentParser) -> None:
        """Configure the parser for this command; line breaks in its texts are kept."""
        parser.usage = self.usage
        parser.description = self.description or parser.description
        parser.epilog = self.epilog  # type: ignore[assignment]  # that of ours makes a text of it when it is shown
        if callable(self.epilog) or "\n" in f"{parser.description}{self.epilog}":
            parser.formatter_class = argparse.RawDescriptionHelpFormatter
        add_arguments(parser, self.options)


Commands = Mapping[str, Command[Any]]
