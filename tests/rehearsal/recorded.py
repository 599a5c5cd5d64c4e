"""The steps that the launchers were seen to do, as the practice cluster prints them.

A line that a launcher printed becomes a template: `{NNODES}` stands for the variable of that name, `{POD}` and `{HOST}`
for each pod in turn. Where a stand-in ran, the practice cluster imitates the program that it stands for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from practice.programs.recordings import LAUNCHER_FILE, data_file
from tests.rehearsal.cases import JSON_AFTER, SKIPPED, UNQUEUED, Case
from tests.rehearsal.judging import Row

Section = dict[str, Any]
LINES = Path(__file__).resolve().parents[1] / "fixtures" / "launcher_lines.json"
"""What pods printed, word for word, on one node, and when a program failed."""
_STEP = re.compile(r"step (\d+) ([-\w]+): (?:(run)|done in \d+ s|skip: (.*)|failed with exit code \d+)")
_ENDED = re.compile(r"\S+ (?:ended with exit code \d+|has nothing to run)(; the pod is kept until the job is stopped)?")
_RAN = re.compile(r"rehearsal: (.*)")
_MPIRUN = re.compile(r"^-{40,}\n[\s\S]*^-{40,}\n", re.MULTILINE)
"""What mpirun says of processes that failed."""
_RACE = re.compile(r"\[[^]]*\] plm:rsh: Warning: setpgid\(.*")
"""What mpirun says, on a busy machine, when a child went on before it was given its process group."""
_AGAIN = re.compile(r"\S+ failed with exit code \d+: once more")
"""A practice download fails once and for all."""
_LISTED = ((re.compile(r"[\d.]+[KMGT]?\t/.*"), "du"), (re.compile(r"-[-rwx]{9} .*"), "ls"))
_SLOTS = re.compile(r"\bslots=\d+$")
_ECHO = re.compile(r'\b(?:echo|printf) "((?:[^"\\]|\\.)*?)(?:\\n)?"')
_TEXTS = (
    "A4_",
    "PAI_",
    "MEGATRON_",
    "MODELSCOPE_",
    "HOSTNAME",
    "DOMAIN_NAME",
    "MASTER_ADDR",
    "NCCL_PLUGIN_PATH",
    "ARGUMENTS",
)
_NUMBERS = (
    "JOB_COMPLETION_INDEX",
    "NNODES",
    "GPUS_PER_NODE",
    "A4_TRAIN_ITERATIONS",
    "A4_GLOBAL_BATCH_SIZE",
    "MASTER_PORT",
)


class Templates:
    """Turns lines of one pod into templates."""

    def __init__(self, environment: Mapping[str, str], launchers: Mapping[str, str]) -> None:
        self.env = environment
        echoes = [found.replace("%s", "$word") for text in launchers.values() for found in _ECHO.findall(text)]
        self._echoes = [echo for echo in echoes if "$" in echo]
        self.pods = [f"{environment['HOSTNAME_PREFIX']}0-{index}" for index in range(int(environment["NNODES"]))]

    def of(self, line: str) -> str:
        """The template of a line: by the echo that has printed it, else by the values in it."""
        for echo in self._echoes:
            names: list[str] = []
            pattern = ""
            for at, part in enumerate(re.split(r"(\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*)", echo)):
                if at % 2:
                    names.append(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", part)[0])
                    pattern += "(.*)"
                else:
                    pattern += re.escape(part)
            found = re.fullmatch(pattern, line)
            if found and len(pattern) > 8 * len(names):
                return self._filled(found, names)
        return self._by_value(line)

    def _filled(self, found: re.Match[str], names: list[str]) -> str:
        text, last = "", 0
        for number, name in enumerate(names, 1):
            text += found.string[last : found.start(number)]
            value = found[number]
            same = [other for other in names if self.env.get(other) == value]
            known = name if self.env.get(name) == value else same[0] if same else ""
            text += f"{{{known}}}" if known else self._by_value(value)
            last = found.end(number)
        return text + found.string[last:]

    def _by_value(self, line: str) -> str:
        texts = {
            value: name
            for name, value in self.env.items()
            if name.startswith(_TEXTS) and len(value) > 3 and not value.isdigit() and value not in ("true", "false")
        }
        for value in sorted(texts, key=len, reverse=True):
            line = line.replace(value, f"{{{texts[value]}}}")
        numbers = {self.env[name]: name for name in reversed(_NUMBERS) if name in self.env}
        return re.sub(r"(?<![\w.{-])\d+(?![\w.}-])", lambda number: self._number(number[0], numbers), line)

    def _number(self, text: str, numbers: Mapping[str, str]) -> str:
        return f"{{{numbers[text]}}}" if text in numbers else text


def sections(log: str, templates: Templates) -> list[Section]:
    """The steps of a pod in their order, each with what it printed, and what was printed between them."""
    found: list[Section] = []
    open_step = False
    for line in log.splitlines():
        if _RACE.fullmatch(line):
            continue
        step = _STEP.fullmatch(line)
        if step and step[3]:
            found.append({"step": step[2], "prints": []})
            open_step = True
        elif step and step[4] is not None:
            found.append({"step": step[2], "skip": step[4]})
            open_step = False
        elif step:
            open_step = False
        elif not _ENDED.fullmatch(line):
            if not open_step and (not found or "step" in found[-1]):
                found.append({"prints": []})
            found[-1]["prints"].append(line)
    for section in found:
        if "prints" in section:
            section["prints"] = grouped(section["prints"], templates)
    return found


def grouped(lines: list[str], templates: Templates) -> list[Section]:
    """Events: a line, a program that ran, or one line for each pod."""
    found: list[Section] = []
    hosts = [line for line in lines if line in templates.pods]
    gpus = int(templates.env["GPUS_PER_NODE"])
    for line in lines:
        each = line
        for pod in templates.pods:
            each = each.replace(f"{pod}.{templates.env['DOMAIN_NAME']}", "{POD}")
        listed = next((name for pattern, name in _LISTED if pattern.fullmatch(line)), "")
        if line in hosts:
            # mpirun's processes answer in any order.
            event: Section = {"each": "{HOST}", "times": "{GPUS_PER_NODE}"}
            assert len(hosts) == gpus * len(templates.pods), "a host name for each GPU"
        elif ran := _RAN.fullmatch(line):
            event = {"ran": ran[1]}
        elif listed:
            event = {"ran": listed}
        elif "{POD}" in each and each.startswith(("{POD}", "pong")):
            # A pod's index may be the same number.
            event = {"each": templates.of(_SLOTS.sub("slots={GPUS_PER_NODE}", each))}
        else:
            event = {"say": templates.of(line)}
        if event not in found[-1:] or "say" in event:
            found.append(event)
        if len(found) > 3 and found[-4:-2] == found[-2:]:
            del found[-2:]  # a file after the other
    return found


def environment(manifests: Sequence[Mapping[str, Any]], index: int) -> dict[str, str]:
    """What is in a pod's environment by its manifest."""
    jobset = next(manifest for manifest in manifests if manifest["kind"] == "JobSet")
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    given = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry}
    given["ARGUMENTS"] = " ".join(pod["containers"][0].get("args", []))
    return given | {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"{given['HOSTNAME_PREFIX']}0-{index}"}


def roles(row: Row) -> dict[str, list[Section]]:
    """The sections of index 0, and of index 1 where there is one, of a case without a fault."""
    launchers = next(manifest for manifest in row.manifests if manifest["kind"] == "ConfigMap")["data"]
    logs = row.logs[-1]
    names = ("first", "other")[: len(logs)]
    return {
        name: sections(log, Templates(environment(row.manifests, index), launchers))
        for index, (name, log) in enumerate(zip(names, logs, strict=False))
    }


def recording(rows: Sequence[Row]) -> dict[str, Any]:
    """All that the practice cluster knows of the launchers."""
    found: dict[str, Any] = {"recipes": {}}
    for row in rows:
        case = row.case
        recipe = found["recipes"].setdefault(case.recipe, {})
        if case.fault == "none" and case.nodes == (2 if several(rows, case) else 1):
            recipe |= roles(row)
        elif case.fault == UNQUEUED:
            found["unqueued"] = next(part for part in roles(row)["first"] if part.get("step") == "order")
        elif case.fault == JSON_AFTER:
            recipe["json"] = next(part for part in roles(row)["first"] if part.get("step") == "train-json")
        elif case.fault == SKIPPED:
            recipe["skips"] = {
                part["skip"].partition("=")[0]: part["step"]
                for part in roles(row)["first"]
                if str(part.get("skip", "")).startswith("SKIP_")
            }
    return found


def several(rows: Sequence[Row], case: Case) -> bool:
    """Whether the recipe runs on several nodes."""
    return any(row.case.recipe == case.recipe and row.case.nodes == 2 for row in rows)


def printed(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What pods printed on one node, and when a program failed."""
    found = []
    for row in rows:
        case = row.case
        if case.nodes == 1 and case.fault not in (UNQUEUED, SKIPPED, JSON_AFTER):
            failing = {name: fault["code"] for name, fault in case.attempts[0].items() if "code" in fault}
            logs = [plain(log) for log in row.logs[0][:2]]
            found.append({"recipe": case.recipe, "nodes": case.nodes, "fails": failing, "logs": logs})
    return sorted(found, key=lambda one: (one["recipe"], one["nodes"], str(one["fails"])))


def plain(log: str) -> list[str]:
    """The lines of the launcher alone, every step taking 0 s."""
    lines = re.sub(r"done in \d+ s", "done in 0 s", _MPIRUN.sub("", log)).splitlines()
    return [line for line in lines if not (is_a_programs(line) or _RACE.fullmatch(line) or _AGAIN.fullmatch(line))]


def is_a_programs(line: str) -> bool:
    """Whether a program has printed a line, and not the launcher."""
    return bool(_RAN.fullmatch(line)) or any(pattern.fullmatch(line) for pattern, _ in _LISTED)


def differences(rows: Sequence[Row]) -> dict[Path, tuple[str, str]]:
    """For each file of the recording that these rows would change: what it says, and what they say."""
    found = {}
    for file, made in ((data_file(LAUNCHER_FILE), recording(rows)), (LINES, printed(rows))):
        text = json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        known = file.read_text() if file.exists() else ""
        if known != text:
            found[file] = known, text
    return found
