"""Kubeconfigs that tests write."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_kubeconfig(
    path: Path,
    cluster: Mapping[str, object],
    user: Mapping[str, object],
    *,
    who: str = "u",
    contexts: Sequence[tuple[str, str]] = (("c", ""),),
) -> Path:
    """One cluster, one user, and contexts (name, namespace), of which the first is the current one; in JSON."""
    named = [
        {"name": name, "context": {"cluster": "c", "user": who} | ({"namespace": inside} if inside else {})}
        for name, inside in contexts
    ]
    path.touch(mode=0o600)
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": contexts[0][0], "contexts": named,
        "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": who, "user": user}],
    }))  # fmt: skip
    return path
