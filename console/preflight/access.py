"""Who may: the pods their buckets (P12), the nodes their images (P23); by the thing's own policy, or the project's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import ConsoleError, NotFound
from console.google.builds import ImageReference
from console.kube.objects.meta import annotations_of
from console.kube.objects.on_demand import NamedWire
from console.preflight.check import (
    Verdict,
    combine,
    fail,
    half_verdict,
    missing_verdict,
    ok,
    skip,
    verdict_of_error,
    warn,
)
from console.preflight.cluster import account_path
from console.preflight.context import members, project_members, project_number, repository_members
from console.preflight.storage import no_bucket

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from console.preflight.context import CheckContext

_ROLES = ("roles/storage.objectAdmin", "roles/storage.legacyBucketReader")
_ENOUGH = {
    _ROLES[0]: ("roles/storage.admin", "roles/storage.objectAdmin", "roles/storage.objectUser", "roles/editor",
                "roles/owner"),
    _ROLES[1]: ("roles/storage.admin", "roles/storage.legacyBucketReader", "roles/storage.legacyBucketOwner",
                "roles/storage.bucketViewer", "roles/owner"),
}  # fmt: skip
_READS = frozenset(f"roles/artifactregistry.{each}" for each in ("reader", "writer", "repoAdmin", "admin")) | {
    "roles/editor",
    "roles/owner",
}
_EVERYBODY = frozenset({"allUsers", "allAuthenticatedUsers"})
_ACTS_AS = "iam.gke.io/gcp-service-account"
"""Annotation of a ServiceAccount whose pods act as an account of Google's."""


async def bucket_access(look: CheckContext) -> Verdict:
    if not look.wish.buckets:
        return skip("No bucket was named." if not look.wish.recipe else "The launch mounts no bucket.")
    acts_as, who = "", f"{look.wish.namespace}/{look.wish.account}"
    try:
        account = await look.find(account_path(look), NamedWire)
        acts_as = annotations_of(account.metadata).get(_ACTS_AS, "") if account else ""
        there = ok(f"ServiceAccount {who} is there{f'; its pods act as {acts_as}' if acts_as else ''}.")
        if account is None:
            there = fail(f"There is no ServiceAccount {who}.", "Pods that use it are not created.")
    except ConsoleError as error:
        there = verdict_of_error(error)
    halves = [await half_verdict(_access(look, name, acts_as)) for name in look.wish.buckets]
    return combine(*halves, there, sure=True)


async def _access(look: CheckContext, name: str, acts_as: str) -> Verdict:
    cluster = await look.gke()
    wish = look.wish
    who = acts_as or f"ns/{wish.namespace}/sa/{wish.account}"
    mine = _Names(cluster.workload_pool, wish.namespace, wish.account, acts_as)
    try:
        ours = mine.roles(await members(look, name))
    except NotFound:
        return no_bucket(name)
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
    return missing_verdict(wish.need(bool(wish.buckets)), words, beyond, command=command)


def _missing(ours: Collection[str]) -> list[str]:
    return [role for role, enough in _ENOUGH.items() if not set(ours) & set(enough)]


async def _principal(look: CheckContext, project: str, mine: _Names) -> str:
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
        by_account = f"/subject/ns/{namespace}/sa/{account}", f"{pool}[{namespace}/{account}]"
        self._ends = (*by_account, f"/namespace/{namespace}")

    def roles(self, policy: Mapping[str, Collection[str]]) -> set[str]:
        """Roles that it has by itself, by its namespace, by its cluster, or with everybody."""
        return {role for role, names in policy.items() if any(self._mine(each) for each in names)}

    def _mine(self, name: str) -> bool:
        ours = name.endswith((*self._ends, f"{self.pool}/*")) or "/kubernetes.cluster/" in name
        return name in self._whole or (bool(self.pool) and self.pool in name and ours)


# images


async def nodes_read(look: CheckContext, image: str) -> Verdict:
    """Whether the machines' own accounts may pull an image of the cluster's project; others know that of theirs."""
    cluster = await look.gke()
    named = ImageReference.of(image).repository
    if named is None or named[0] != cluster.project:
        return ok("")
    accounts = {pool.account if "@" in pool.account else "" for pool in cluster.pools if pool.accelerators}
    if "" in accounts:
        usual = f"{await project_number(look, cluster.project)}-compute@developer.gserviceaccount.com"
        accounts = (accounts - {""}) | {usual}
    policies = [await repository_members(look, *named), await project_members(look, cluster.project)]
    held = {name for policy in policies for role in policy.keys() & _READS for name in policy[role]}
    without = sorted(each for each in accounts if f"serviceAccount:{each}" not in held and not held & _EVERYBODY)
    if not without:
        return ok(f"The nodes may read it, as {', '.join(sorted(accounts))}.")
    project, location, name = named
    command = (
        f"gcloud artifacts repositories add-iam-policy-binding {name} --location={location} --project={project} "
        f"--role=roles/artifactregistry.reader --member=serviceAccount:{without[0]}"
    )
    told = f"Neither {name} nor the project gives {', '.join(without)}, as whom the nodes pull, the right to read."
    return warn(told, "Pods with it then wait in ImagePullBackOff.", "Give the nodes' account the reader's role.",
                command=command)  # fmt: skip
