"""Objects that are read once when needed and never watched: DaemonSets, drivers, networks, policies, claims."""

from typing import TypeVar

import msgspec

from console.decoding import DECODING_ERRORS
from console.errors import Unreadable
from console.kube.objects.meta import ApiSchema, ConditionSchema, ObjectSchema

_T = TypeVar("_T")


class GitVersionSchema(ApiSchema):
    git_version: str | None = None


class CheckSpecSchema(ApiSchema):
    controller_name: str | None = None


class AdmissionCheckSchema(ObjectSchema):
    spec: CheckSpecSchema | None = None


class ContainerImageSchema(ApiSchema):
    name: str | None = None
    image: str | None = None


class PodOnDemandSchema(ApiSchema):
    containers: list[ContainerImageSchema] | None = None


class PodObjectSchema(ObjectSchema):
    spec: PodOnDemandSchema | None = None


class WorkloadControllerSpecSchema(ApiSchema):
    template: PodObjectSchema | None = None


class WorkloadControllerStatusSchema(ApiSchema):
    desired_number_scheduled: int | None = None
    number_ready: int | None = None
    conditions: list[ConditionSchema] | None = None


class WorkloadControllerSchema(ObjectSchema):
    spec: WorkloadControllerSpecSchema | None = None
    status: WorkloadControllerStatusSchema | None = None

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


class ApiVersionSchema(ApiSchema):
    version: str | None = None


class ApiGroupSchema(ApiSchema):
    name: str | None = None
    versions: list[ApiVersionSchema] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the group's versions, the preferred one first."""
        return tuple(each.version for each in self.versions or () if each.version)


class ClaimStatusSchema(ApiSchema):
    phase: str | None = None
    capacity: dict[str, str] | None = None


class ClaimSchema(ObjectSchema):
    status: ClaimStatusSchema | None = None


class ServiceSelectorSchema(ApiSchema):
    match_labels: dict[str, str] | None = None
    match_expressions: list[dict[str, object]] | None = None


class PolicyPortSchema(ApiSchema):
    """A port of a NetworkPolicy rule; named ports are treated as other ports."""

    port: int | str | None = None
    end_port: int | None = None
    protocol: str | None = None


class PolicyPeerSchema(ApiSchema):
    """A peer of a NetworkPolicy rule; its fields only tell whether it stands for all pods of the same namespace."""

    pod_selector: ServiceSelectorSchema | None = None
    namespace_selector: ServiceSelectorSchema | None = None
    ip_block: dict[str, object] | None = None


class PolicyRuleSchema(ApiSchema, rename={"from_": "from"}):
    ports: list[PolicyPortSchema] | None = None
    from_: list[PolicyPeerSchema] | None = None
    to: list[PolicyPeerSchema] | None = None


class PolicySpecSchema(ApiSchema):
    pod_selector: ServiceSelectorSchema | None = None
    ingress: list[PolicyRuleSchema] | None = None
    egress: list[PolicyRuleSchema] | None = None
    policy_types: list[str] | None = None


class NetworkPolicySchema(ObjectSchema):
    spec: PolicySpecSchema | None = None


def read_object(body: bytes, type_: type[_T]) -> _T:
    """The response decoded as an object or list of type `type_`. Raises Unreadable if it is something else."""
    try:
        return msgspec.json.decode(body, type=type_)
    except DECODING_ERRORS as error:
        raise Unreadable(f"The API server's answer cannot be read: {error}.") from error
