"""Whether the pods of a launch may use its buckets (P12): by the bucket's policy or by the project's, and as whom."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from console.errors import ConsoleError
from console.parsers.found import NamedWire
from console.parsers.meta import annotations_of
from console.preflight.google import members, project_members, project_number
from console.preflight.verdict import Verdict, both, fail, lacking, ok, seen, skip

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from console.preflight.looking import Looking

_ROLES = ("roles/storage.objectAdmin", "roles/storage.legacyBucketReader")
_ENOUGH = {
    _ROLES[0]: ("roles/storage.admin", "roles/storage.objectAdmin", "roles/storage.objectUser", "roles/editor",
                "roles/owner"),
    _ROLES[1]: ("roles/storage.admin", "roles/storage.legacyBucketReader", "roles/storage.legacyBucketOwner",
                "roles/storage.bucketViewer", "roles/owner"),
}  # fmt: skip
_EVERYBODY = frozenset({"allUsers", "allAuthenticatedUsers"})
_ACTS_AS = "iam.gke.io/gcp-service-account"
"""Annotation of a ServiceAccount whose pods act as an account of Google's."""


async def bucket_access(look: Looking) -> Verdict:
    """P12."""
    if not look.wish.buckets:
        return skip("No bucket was named." if not look.wish.recipe else "The launch mounts no bucket.")
    acts_as, account = "", None
    try:
        account = await _account(look)
        acts_as = annotations_of(account.metadata).get(_ACTS_AS, "") if account else ""
        there = _there(look, account, acts_as)
    except ConsoleError as error:
        there = await seen(_raised(error))
    halves = [await seen(_access(look, name, acts_as)) for name in look.wish.buckets]
    return both(*halves, there, sure=True)


async def _raised(error: ConsoleError) -> Verdict:
    raise error


async def _account(look: Looking) -> NamedWire | None:
    namespace, name = look.wish.namespace, look.wish.account
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/serviceaccounts/{quote(name, safe='')}"
    return await look.find(path, NamedWire)


def _there(look: Looking, account: NamedWire | None, acts_as: str) -> Verdict:
    who = f"{look.wish.namespace}/{look.wish.account}"
    if account is None:
        return fail(f"There is no ServiceAccount {who}.", "Pods that name it are not made.")
    return ok(f"ServiceAccount {who} is there{f'; its pods act as {acts_as}' if acts_as else ''}.")


async def _access(look: Looking, name: str, acts_as: str) -> Verdict:
    cluster = await look.gke()
    wish = look.wish
    who = acts_as or f"ns/{wish.namespace}/sa/{wish.account}"
    mine = _Names(cluster.workload_pool, wish.namespace, wish.account, acts_as)
    ours = mine.roles(await members(look, name))
    missing = _missing(ours)
    if not missing:
        return ok(f"{who} has {', '.join(sorted(ours))} on gs://{name}.")
    beyond = "The project's policy gives no more."
    try:
        ours |= mine.roles(await project_members(look, cluster.project))
    except ConsoleError as error:
        beyond = f"The project may give it all the same: its policy was not seen ({error.message})"
    if not (missing := _missing(ours)):
        return ok(f"{who} has {', '.join(sorted(ours))} by the policies of gs://{name} and of the project.")
    member = f"serviceAccount:{acts_as}" if acts_as else await _principal(look, cluster.project, mine)
    command = f"gcloud storage buckets add-iam-policy-binding gs://{name} --role={missing[0]} --member={member}"
    has = ", ".join(sorted(ours)) or "nothing"
    words = f"gs://{name} gives {who} {has}; what is missing is {', '.join(missing)}."
    return lacking(wish.need(bool(wish.buckets)), words, beyond, command=command)


def _missing(ours: Collection[str]) -> list[str]:
    return [role for role, enough in _ENOUGH.items() if not set(ours) & set(enough)]


async def _principal(look: Looking, project: str, mine: _Names) -> str:
    """The member that a policy names for the pods; PROJECT_NUMBER where that is not known."""
    try:
        number = await project_number(look, project)
    except ConsoleError:
        number = "PROJECT_NUMBER"  # the command is to be read before it is run
    pool = f"principal://iam.googleapis.com/projects/{number}/locations/global/workloadIdentityPools/{mine.pool}"
    return f"{pool}/subject/ns/{mine.namespace}/sa/{mine.account}"


class _Names:
    """All that the pods' account is called in policies."""

    def __init__(self, pool: str, namespace: str, account: str, acts_as: str) -> None:
        self.pool, self.namespace, self.account = pool, namespace, account
        self._whole = {*_EVERYBODY, *([f"serviceAccount:{acts_as}"] if acts_as else [])}
        self._ends = (
            f"/subject/ns/{namespace}/sa/{account}",
            f"/namespace/{namespace}",
            f"{pool}[{namespace}/{account}]",
        )

    def roles(self, policy: Mapping[str, Collection[str]]) -> set[str]:
        """Roles that it has by itself, by its namespace, by its cluster, or with everybody."""
        return {role for role, names in policy.items() if any(self._mine(each) for each in names)}

    def _mine(self, name: str) -> bool:
        if name in self._whole:
            return True
        return (
            bool(self.pool)
            and self.pool in name
            and (name.endswith(self._ends) or "/kubernetes.cluster/" in name or name.endswith(f"{self.pool}/*"))
        )
