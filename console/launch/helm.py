"""Renders charts and manages releases with the Helm SDK, and translates its errors; the only importer of the SDK.

The SDK is Helm 4 itself in a 85 MB library that blocks. It is loaded on first use and called in threads only. Every
call has a configuration of its own (2 ms), so concurrent calls share nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import yaml

from console import work_slices
from console.errors import (
    BadInput,
    Conflict,
    ConsoleError,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    Refused,
    ReleaseFailed,
    Unreachable,
    Unreadable,
)
from console.kube.api_errors import failure_cause
from console.kube.nested_values import Value
from console.kube.raw_connection import api_server_proxy
from console.kube.safe_yaml import load_yaml
from console.launch.recipes import FieldProblem, Release

if TYPE_CHECKING:
    from helm_python import Config

    from console.kube.login import Login


class InvalidValues(BadInput):
    """Helm refused the values; `problems` has one entry per value, with dotted paths."""

    def __init__(self, message: str, hint: str = "", *, problems: tuple[FieldProblem, ...] = ()) -> None:
        super().__init__(message, hint)
        self.problems = problems


def translate_error(text: str, kind: str, failure: str) -> ConsoleError:
    """The error for a message of Helm, chosen by its text, since Helm has few error types."""
    problems = schema_problems(text)
    if problems:
        message = "; ".join(f"{problem.path or 'values'}: {problem.message}" for problem in problems)
        return InvalidValues(f"{failure}: {message}.", problems=problems)
    why = first_sentence(text)
    for pattern, made, hint, more in _KNOWN_ERRORS:
        if re.search(pattern, text):
            return made(f"{failure}: {why}.", hint, **more)
    if kind == "HelmNotFoundError":
        return NotFound(f"{failure}: there is no such release.", status=404, reason="NotFound")
    return ReleaseFailed(f"{failure}: {why}.")


_KNOWN_ERRORS: tuple[tuple[str, type[ConsoleError], str, dict[str, Any]], ...] = (
    (r"\bUnauthorized\b|must be logged in", NotLoggedIn, "Log in again.", {"status": 401}),
    (r"\bis forbidden: User\b|\bforbidden: User\b", NotAllowed, "Ask for permission to do this in the namespace.",
     {"status": 403, "reason": "Forbidden"}),
    (r"cannot reuse a name that is still in use|cannot be imported into the current release", Conflict,
     "Choose another name, or remove what has it.", {"status": 409, "reason": "AlreadyExists"}),
    (r"no matches for kind \"JobSet\"", ReleaseFailed,
     "This cluster has no JobSet API; ask its administrator to install JobSet.", {}),
    (r"namespaces? \"[^\"]*\" not found", NotFound, "Choose a namespace that exists.",
     {"status": 404, "reason": "NotFound"}),
    (r"failed calling webhook", ReleaseFailed, "A controller of the cluster (Kueue or JobSet) does not answer.", {}),
    (r"cluster unreachable|connection refused|no such host|i/o timeout|deadline exceeded|x509|TLS handshake|EOF$",
     Unreachable, "Check the network, the VPN and the kubeconfig.", {}),
)  # fmt: skip
"""(pattern of Helm's message, error type, hint, further arguments of the error), the first match counts."""


def schema_problems(text: str) -> tuple[FieldProblem, ...]:
    """The schema violations that Helm's message lists; empty if it is about something else."""
    if "schema(s)" not in text:
        return ()
    lines = re.findall(r"^- at '([^']*)': (.*)$", text, re.MULTILINE)
    return tuple(FieldProblem(path.strip("/").replace("/", "."), why) for path, why in lines)


def first_sentence(text: str) -> str:
    """Helm's message in one line of at most 400 characters, each object named once."""
    short = re.sub(r"Invalid value: [\[{].*[\]}]: ", "", text)
    short = re.sub(r"\s+", " ", short).strip().rstrip(".")
    return short if len(short) <= 400 else short[:397] + "..."


T = TypeVar("T")

_REMOVAL_PAUSES = (0.0, 1.0, 3.0)  # seconds before each try to remove what a failed install has made
CHART_KINDS = {  # kinds that the chart makes, and their API groups, in the order in which they can be deleted
    "JobSet": "jobset.x-k8s.io",
    "Service": "",
    "ConfigMap": "",
    "Secret": "",
    "PersistentVolumeClaim": "",
    "PersistentVolume": "",
    "ResourceClaimTemplate": "resource.k8s.io",
}
_API_VERSIONS = {"JobSet": "jobset.x-k8s.io/v1alpha2", "ResourceClaimTemplate": "resource.k8s.io/v1"}  # not v1
_DOCUMENT_SEPARATOR = re.compile(r"(?:^|\s*\n)---\s*")  # where Helm itself divides a manifest
HELM_POLICY = "helm.sh/resource-policy"
MAX_MANIFEST_CHARACTERS = 1 << 20  # characters of a release of this chart, which has a fifth of that
RECIPE_LABEL = "a4.console/recipe"


@dataclass(frozen=True, slots=True)
class Helm:
    login: Login | None = None  # None: charts are rendered only
    guard: Callable[[str, str], Awaitable[None]] | None = None  # raises for releases too large to be unpacked by Helm

    async def _run_in_thread(self, namespace: str, name: str, call: Callable[[Config], T], failure: str) -> T:
        """Run `call` in a thread and return its result; an empty `name` means all releases of the namespace."""
        if self.guard is not None:
            await self.guard(namespace, name)
        return await self._run_without_guard(namespace or "default", call, failure)

    async def _run_without_guard(self, namespace: str, call: Callable[[Config], T], failure: str) -> T:
        assert self.login is not None
        login, kubeconfig = self.login, await _kubeconfig_of(self.login)

        def action() -> T:
            from helm_python import Config

            with api_server_proxy(login) as proxy:
                if login.server.startswith("https:"):
                    kubeconfig["clusters"][0]["cluster"]["proxy-url"] = proxy.url
                try:
                    with _kubeconfig_arguments(kubeconfig) as given, Config(namespace=namespace, **given) as config:
                        return call(config)
                except _helm_error_type() as error:
                    if proxy.refused_address:
                        raise Refused(
                            f"{failure}: the API server answers with a redirect to {proxy.refused_address}.",
                            "Write that address into the kubeconfig if it is the right one.",
                        ) from error
                    if proxy.failure is not None:
                        why, hint = failure_cause(proxy.failure, proxied=bool(login.proxy))
                        raise Unreachable(f"{failure}: the API server cannot be reached: {why}.", hint) from error
                    raise

        return await _run_serialized(action, failure)

    async def render(self, chart: Path, values: Mapping[str, Value], *, name: str, namespace: str) -> tuple[str, ...]:
        """The YAML of every object of the chart with these values, rendered without asking the cluster."""

        def work() -> tuple[str, ...]:
            from helm_python import Chart

            with Chart.load(chart) as loaded:
                rendered = loaded.render(dict(values), name=name, namespace=namespace)
            parts = (part for _, text in sorted(rendered.items()) for part in _split_documents(text))
            return tuple(part for part in parts if kind_and_name(part)[0])

        return await _run_serialized(work, f"The chart could not be rendered for {name}")

    async def require_name_free(self, *, name: str, namespace: str) -> None:
        """Raise Conflict when a release of that name exists, in whatever state."""
        failed = f"Whether the name {name} is free could not be found out"
        await self._run_in_thread(namespace, name, lambda config: _require_name_unused(config, name, namespace), failed)

    async def install(
        self, chart: Path, values: Mapping[str, Value], *, name: str, namespace: str, labels: Mapping[str, str]
    ) -> None:
        """Install a release without waiting for its pods; if that fails, created objects are removed again."""
        failed = f"{name} could not be installed"

        def work(config: Config) -> Exception | None:
            _require_name_unused(config, name, namespace)
            try:
                config.install(chart, name, dict(values), namespace=namespace, labels=dict(labels))
            except _helm_error_type() as error:
                if re.search("cannot reuse a name that is still in use|cannot be imported", str(error)):
                    raise
                return error
            return None

        error = await self._run_in_thread(namespace, name, work, failed)
        if error is not None:
            # Nobody who stops waiting leaves half a release behind.
            await asyncio.shield(self._remove_failed(name, namespace, error))
            raise translate_error(str(error), type(error).__name__, failed) from error

    async def _remove_failed(self, name: str, namespace: str, error: Exception) -> None:
        """Remove what a failed install created, with retries for a few moments. Raises ReleaseFailed if that fails."""

        def work(config: Config) -> Exception | None:
            try:
                config.uninstall(name, ignore_not_found=True)
            except _helm_error_type() as again:
                return again
            return None

        second: Exception | None = None
        for pause in _REMOVAL_PAUSES:
            await asyncio.sleep(pause)
            second = await self._run_without_guard(namespace, work, f"{name} could not be removed")
            if second is None:
                return
        raise ReleaseFailed(
            f"{name} could not be installed: {first_sentence(str(error))}; removing what was made failed too:"
            f" {first_sentence(str(second))}.",
            f"Stop {name} again when the cluster answers: a4 stop {name}",
            half_made=(namespace, name),
        ) from error

    async def uninstall(self, *, name: str, namespace: str, only: Collection[str] | None = None) -> tuple[str, ...]:
        """Remove a release of this chart; returns the removed objects as "Kind name". The pods follow a moment later.

        Raises ReleaseFailed for a release with hooks or with objects that the chart never creates: whoever may write
        Secrets can forge one, to be removed with this account's rights. Raises Conflict for objects beyond `only`.
        """

        def work(config: Config) -> tuple[str, ...]:
            removal = _split_removal(_read_own_objects(config, name, namespace))
            if only is not None:
                removal.require_only(only, name, namespace)
            config.uninstall(name)
            return removal.removed

        return await self._run_in_thread(namespace, name, work, f"{name} could not be removed from {namespace}")

    async def plan_removal(self, *, name: str, namespace: str) -> RemovalPlan:
        """The objects that `uninstall` would remove and keep. Raises ReleaseFailed if it would refuse the release."""

        def work(config: Config) -> RemovalPlan:
            return _split_removal(_read_own_objects(config, name, namespace))

        return await self._run_in_thread(namespace, name, work, f"The objects of {name} could not be read")

    async def list_releases(self, chart: str, namespace: str = "") -> tuple[Release, ...]:
        """Releases of the named chart in any state; an empty namespace means all namespaces."""

        def work(config: Config) -> tuple[Release, ...]:
            found = config.list(all_states=True, all_namespaces=not namespace)
            return tuple(_parse_release(summary) for summary in found if summary.get("chart_name") == chart)

        return await self._run_in_thread(namespace, "", work, "The releases could not be listed")

    async def read_values(self, *, name: str, namespace: str) -> dict[str, Value]:
        """The values a release was installed with, without the chart's defaults."""

        def work(config: Config) -> dict[str, Value]:
            return dict(config.get_values(name) or {})

        return await self._run_in_thread(namespace, name, work, f"The values of {name} could not be read")


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """The objects that are removed with a release (`goes`) and those that are kept (`stays`), as "Kind name"."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    manifests: tuple[str, ...]

    def require_only(self, names: Collection[str], name: str, namespace: str) -> None:
        """Raise Conflict if more objects would be removed than those in `names`."""
        if more := [each for each in self.removed if each not in names]:
            raise Conflict(
                f"The release {name} in {namespace} was changed in the meantime: it names {', '.join(more[:5])} too."
                " Nothing was removed.",
                "Look at it again, then stop it again.",
            )


def object_path(kind: str, namespace: str, name: str = "", *, api: str = "") -> str:
    """URL path of an object of the chart, or without `name` of a list; `namespace` empty: all, `api`: the kind's."""
    api = api or _API_VERSIONS.get(kind, "v1")
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace and kind != "PersistentVolume" else ""
    path = f"{'/apis' if '/' in api else '/api'}/{api}{place}/{kind.lower()}s"
    return f"{path}/{quote(name, safe='')}" if name else path


def load_manifest(manifest: str) -> dict[str, Any]:
    try:
        return dict(load_yaml(manifest))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise Unreadable(f"An object of the release is not YAML: {error}.") from error


def kind_and_name(manifest: str) -> tuple[str, str]:
    """The first `kind` and the first metadata name in a manifest, found by regular expressions without parsing it."""
    kind = re.search(r"^kind: *\"?([\w.]+)", manifest, re.MULTILINE)
    name = re.search(r"^metadata:\n(?:[ ].*\n)*?  name: *\"?([-.\w]+)", manifest, re.MULTILINE)
    return (kind.group(1) if kind else "", name.group(1) if name else "")


def is_kept(manifest: str) -> bool:
    """Whether an object is kept when its release is removed: volumes and claims, whose data others may use."""
    return re.search(r"^    \"?helm.sh/resource-policy\"?: keep$", manifest, re.MULTILINE) is not None


async def _kubeconfig_of(login: Login) -> dict[str, Any]:
    """A kubeconfig with the present credentials, so that Helm runs no plugin; none over plain HTTP."""
    cluster: dict[str, Any] = {"server": login.server}
    user: dict[str, str] = {}
    if login.server.startswith("https:"):
        kind, _, credential = (await login.headers()).get("Authorization", "").partition(" ")
        if kind == "Bearer":
            user["token"] = credential
        elif kind:
            user["username"], _, user["password"] = base64.b64decode(credential).decode().partition(":")
        given = await login.certificates()
        if given.client_pem:  # of a text with both Go takes the certificate here and the key there
            encoded = base64.b64encode(given.client_pem.encode()).decode()
            user["client-certificate-data"] = user["client-key-data"] = encoded
        if given.authority:
            cluster["certificate-authority-data"] = base64.b64encode(given.authority.encode()).decode()
        cluster["insecure-skip-tls-verify"] = given.insecure
        if login.server_name:
            cluster["tls-server-name"] = login.server_name
    elif login.proxy:
        cluster["proxy-url"] = login.proxy
    return {
        "current-context": "a4",
        "clusters": [{"name": "a4", "cluster": cluster}],
        "users": [{"name": "a4", "user": user}],
        "contexts": [{"name": "a4", "context": {"cluster": "a4", "user": "a4"}}],
    }


@contextmanager
def _kubeconfig_arguments(kubeconfig: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the arguments that pass the kubeconfig to Helm's library: from memory on Linux, else as a file."""
    text = json.dumps(kubeconfig)
    if sys.platform != "linux":
        yield {"kubeconfig_content": text}
        return
    with os.fdopen(os.memfd_create("kubeconfig"), "w") as file:
        file.write(text)
        file.flush()
        yield {"kubeconfig_path": f"/proc/self/fd/{file.fileno()}"}


async def _run_serialized(call: Callable[[], T], failure: str) -> T:
    # A thread cannot be stopped: an action whose caller is cancelled ends as it would have.
    try:
        return await asyncio.to_thread(work_slices.run_to_end, call)
    except _helm_error_type() as error:
        raise translate_error(str(error), type(error).__name__, failure) from error


def _helm_error_type() -> type[Exception]:
    from helm_python import HelmError

    return HelmError


def _require_name_unused(config: Config, name: str, namespace: str) -> None:
    """Raise Conflict if a release of that name exists; a failed install would be removed with it."""
    status = _status_of(config, name)
    if not status:
        return
    free = next((each for number in range(2, 100) if not _status_of(config, each := f"{name}-{number}")), "")
    raise Conflict(
        f"A release named {name} exists already in {namespace} ({status}).",
        f"Choose another name{f' ({free} is free)' if free else ''}, or stop that one first.",
        status=409,
        reason="AlreadyExists",
    )


def _status_of(config: Config, name: str) -> str:
    """The status of the release of that name; empty if there is none."""
    from helm_python import HelmNotFoundError

    try:
        return str(config.status(name)["status"])
    except HelmNotFoundError:
        return ""


def _read_own_objects(config: Config, name: str, namespace: str) -> tuple[str, ...]:
    """The objects of a release if this chart creates such objects in that namespace; else ReleaseFailed."""
    found = config.get_all(name)
    manifest = str((found.get("summary") or {}).get("manifest") or config.status(name)["manifest"])
    documents = [part for part in _DOCUMENT_SEPARATOR.split(manifest) if part.strip()]
    strange = ["hooks"] if found.get("hooks") else []
    if len(manifest) > MAX_MANIFEST_CHARACTERS:
        strange, documents = [f"a manifest of {len(manifest) >> 20} MiB"], []
    strange += [words for text in documents if (words := _find_foreign_part(text, name, namespace))]
    if strange:
        raise ReleaseFailed(
            f"The release {name} in {namespace} holds what this chart does not make: {', '.join(strange[:5])}."
            " Nothing was changed.",
            f"Look at it: helm get all {name} -n {namespace}. If it is not in use, delete its Secrets"
            f" (kubectl delete secret -n {namespace} -l owner=helm,name={name}).",
        )
    return tuple(documents)


def _split_removal(documents: Sequence[str]) -> RemovalPlan:
    """The objects that removing a release deletes and keeps; one is kept only if every YAML parser reads it so."""
    goes: list[str] = []
    stays: list[str] = []
    for text in documents:
        if kind_and_name(text)[0]:
            (stays if _is_kept_object(text) else goes).append(" ".join(kind_and_name(text)))
    return RemovalPlan(tuple(goes), tuple(stays), tuple(documents))


def _is_kept_object(text: str) -> bool:
    if not is_kept(text) or text.count(HELM_POLICY) != 1:
        return False
    annotations = load_yaml(text)["metadata"].get("annotations")
    return isinstance(annotations, dict) and annotations.get(HELM_POLICY) == "keep"


def _find_foreign_part(text: str, name: str, namespace: str) -> str:
    """The part of an object that does not belong to this release; empty if all of it does."""
    try:
        made = load_yaml(text)
        if made is None:
            return ""
        kind, meta = str(made["kind"]), made["metadata"]
        title, where, labels = str(meta["name"]), meta.get("namespace"), meta.get("labels") or {}
        group = str(made["apiVersion"]).rpartition("/")[0]
        mine = labels.get("app.kubernetes.io/instance") == name and labels.get("app.kubernetes.io/name") == "a4"
    except (yaml.YAMLError, LookupError, AttributeError, TypeError, ValueError):
        return "an object that cannot be read"
    placed = where in (None, namespace) if kind != "PersistentVolume" else title.startswith(f"a4-{namespace}-")
    if CHART_KINDS.get(kind) == group and mine and placed and (kind, title) == kind_and_name(text):
        return ""
    return f"{kind} {where + '/' if isinstance(where, str) else ''}{title}"


def _split_documents(manifest: str) -> tuple[str, ...]:
    parts = re.split(r"^---\n", manifest, flags=re.MULTILINE)
    return tuple(re.sub(r"^# Source: .*\n", "", part) for part in parts if part.strip())


def _parse_release(summary: Mapping[str, Any]) -> Release:
    return Release(
        namespace=str(summary["namespace"]),
        name=str(summary["name"]),
        recipe=str((summary.get("labels") or {}).get(RECIPE_LABEL, "")),
        revision=int(summary.get("revision", 0)),
        status=str(summary.get("status", "")),
        updated=str(summary.get("deployed_at", "")),
        chart=f"{summary.get('chart_name', '')}-{summary.get('chart_version', '')}",
    )
