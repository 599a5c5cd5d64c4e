"""What a launch names and the cluster has to have: namespace, ServiceAccount, Secrets, claims, priority (P36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.models.values import look as value_at
from console.parsers.found import GroupWire, NamedWire
from console.parsers.kinds import KUEUE
from console.preflight.verdict import Verdict, both, fail, ok, seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from console.preflight.looking import Looking


async def named(look: Looking) -> Verdict:
    """P36."""
    return both(*[await seen(half) for half in _halves(look)], sure=True)


def _halves(look: Looking) -> Iterator[Awaitable[Verdict]]:
    wish = look.wish
    yield _object(look, "namespace", f"/api/v1/namespaces/{quote(wish.namespace, safe='')}", wish.namespace)
    yield account(look)
    for secret in _secrets(look):
        yield _listed(look, "Secret", "secrets", secret, "Its pods do not start without it.")
    for claim in _keys(look, "storage.pvc"):
        yield _listed(look, "claim", "persistentvolumeclaims", claim, "Pods that mount it wait for ever.")
    if wish.text("priorityClass") and wish.ask.queue:
        yield _priority(look, wish.text("priorityClass"))


async def account(look: Looking) -> Verdict:
    """The ServiceAccount of the pods."""
    name = look.wish.account
    return await _object(look, "ServiceAccount", account_path(look), name, "The API server makes no pod that names it.")


def account_path(look: Looking) -> str:
    """Where the API server has the ServiceAccount of the pods."""
    namespace, name = (quote(each, safe="") for each in (look.wish.namespace, look.wish.account))
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"


async def _object(look: Looking, kind: str, path: str, name: str, reason: str = "") -> Verdict:
    where = "" if name == look.wish.namespace else f" in {look.wish.namespace}"
    if await look.find(path, NamedWire) is None:
        return fail(f"There is no {kind} {name}{where}.", reason)
    return ok(f"{kind[:1].upper()}{kind[1:]} {name} is there.")


async def _listed(look: Looking, kind: str, plural: str, name: str, reason: str) -> Verdict:
    """Asked for by its metadata alone: what a Secret holds does not come to this machine."""
    namespace = look.wish.namespace
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/{plural}"
    if await look.names(path, f"{kind}s", fieldSelector=f"metadata.name={name}", limit="1"):
        return ok(f"{kind[:1].upper()}{kind[1:]} {name} is there.")
    return fail(f"There is no {kind} {name} in {namespace}.", reason)


async def _priority(look: Looking, name: str) -> Verdict:
    group = await look.find(f"/apis/{KUEUE}", GroupWire)
    version = next(iter(group.names), "") if group else ""
    path = f"/apis/{KUEUE}/{version}/workloadpriorityclasses/{quote(name, safe='')}"
    found = await look.find(path, NamedWire) if version else None
    if found is not None:
        return ok(f"WorkloadPriorityClass {name} is there.")
    return fail(f"There is no WorkloadPriorityClass {name}.", "Kueue takes no job that names it.")


def _secrets(look: Looking) -> list[str]:
    """Of `secrets` (NAME=secret/key) and of `imagePullSecrets`, each once."""
    references = value_at(look.wish.values, "secrets")
    named = [str(each).partition("/")[0] for each in references.values()] if isinstance(references, Mapping) else []
    pulling = value_at(look.wish.values, "imagePullSecrets")
    return list(dict.fromkeys([*named, *(map(str, pulling) if isinstance(pulling, list | tuple) else ())]))


def _keys(look: Looking, path: str) -> tuple[str, ...]:
    found = value_at(look.wish.values, path)
    return tuple(found) if isinstance(found, Mapping) else ()
