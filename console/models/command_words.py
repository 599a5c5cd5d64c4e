"""Commands that a sentence tells a person to type, so that they reach the namespace they are about (pure)."""

from __future__ import annotations

import re

_VERBS = (
    "alarms", "code", "cp", "doctor", "exec", "facts", "forward", "gpus", "hang", "jobs", "launch", "logs",
    "ls", "nccl", "nccl-quick", "pods", "preflight", "releases", "rm", "rollback", "shell", "ssh", "stop",
    "store-logs", "training", "upgrade", "wait", "why", "workloads",
)  # fmt: skip
"""Those that look in one namespace."""
_COMMAND = re.compile(rf"\ba4 (?=(?:{'|'.join(sorted(_VERBS, key=len, reverse=True))})\b(?!-)(?! -A)(?! --leftovers))")


def in_namespace(text: str, namespace: str) -> str:
    """The text, its commands with `-n NAMESPACE`; an empty namespace is the one that a command takes by itself."""
    return _COMMAND.sub(lambda _: f"a4 -n {namespace} ", text) if namespace else text
