"""Objects that are read once when needed and never watched: DaemonSets, drivers, networks, policies, claims."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from console.decoding import UNREADABLE
from console.errors import Unreadable
from console.kube.objects.meta import ConditionWire, ObjectWire, Wire

_T = TypeVar("_T")


class BuildWire(Wire):
    git_version: str | None = None


class CheckSpecWire(Wire):
    controller_name: str | None = None


class AdmissionCheckWire(ObjectWire):
    spec: CheckSpecWire | None = None


class ImageWire(Wire):
    name: str | None = None
    image: str | None = None


class PodOnDemandWire(Wire):
    containers: list[ImageWire] | None = None


class PodObjectWire(ObjectWire):
    spec: PodOnDemandWire | None = None


class WorkloadControllerSpecWire(Wire):
    template: PodObjectWire | None = None


class WorkloadControllerStatusWire(Wire):
    desired_number_scheduled: int | None = None
    number_ready: int | None = None
    conditions: list[ConditionWire] | None = None


class WorkloadControllerWire(ObjectWire):
    spec: WorkloadControllerSpecWire | None = None
    status: WorkloadControllerStatusWire | None = None

    @property
    def name(self) -> str:
        return self.metadata.name or ""

    @property
    def images(self) -> tuple[str, ...]:
        pod = self.spec.template.spec if self.spec and self.spec.template else None
        return tuple(each.image for each in (pod.containers if pod else None) or () if each.image)

    @property
    def wanted(self) -> int:
        """For a DaemonSet: number of nodes that should run it."""
        return (self.status.desired_number_scheduled if self.status else None) or 0

    @property
    def ready(self) -> int:
        """For a DaemonSet: number of nodes where it is ready."""
        return (self.status.number_ready if self.status else None) or 0

    @property
    def available(self) -> bool:
        """For a Deployment: whether its condition Available is true."""
        conditions = (self.status.conditions if self.status else None) or ()
        return any(each.type == "Available" and each.status == "True" for each in conditions)


class VersionWire(Wire):
    version: str | None = None


class GroupWire(Wire):
    name: str | None = None
    versions: list[VersionWire] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the group's versions, the preferred one first."""
        return tuple(each.version for each in self.versions or () if each.version)


class ClaimStatusWire(Wire):
    phase: str | None = None
    capacity: dict[str, str] | None = None


class ClaimWire(ObjectWire):
    status: ClaimStatusWire | None = None


class ServiceSelectorWire(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[dict[str, object]] | None = None


class PortWire(Wire):
    """A port of a NetworkPolicy rule; a named port is treated as not one of ours."""

    port: int | str | None = None
    end_port: int | None = None
    protocol: str | None = None


class PeerWire(Wire):
    """A peer of a NetworkPolicy rule; only whether it means pods of the same namespace matters here."""

    pod_selector: ServiceSelectorWire | None = None
    namespace_selector: ServiceSelectorWire | None = None
    ip_block: dict[str, object] | None = None


class RuleWire(Wire, rename={"from_": "from"}):
    ports: list[PortWire] | None = None
    from_: list[PeerWire] | None = None
    to: list[PeerWire] | None = None


class PolicySpecWire(Wire):
    pod_selector: ServiceSelectorWire | None = None
    ingress: list[RuleWire] | None = None
    egress: list[RuleWire] | None = None
    policy_types: list[str] | None = None


class PolicyWire(ObjectWire):
    spec: PolicySpecWire | None = None


def read_object(body: bytes, type_: type[_T]) -> _T:
    """Decode a response as that object or list; Unreadable if it is something else."""
    try:
        return msgspec.json.decode(body, type=type_)
    except UNREADABLE as error:
        raise Unreadable(f"The API server's answer cannot be read: {error}.") from error
