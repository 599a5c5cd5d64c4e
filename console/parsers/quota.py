"""Quota and usage, spelled alike in ClusterQueues, LocalQueues and Cohorts."""

from __future__ import annotations

from console.models.queue import Quota, Usage
from console.parsers.meta import Wire, shared
from console.parsers.quantity import parse_amount

Amount = str | int | float


class QuotaWire(Wire):
    """Quota for one resource of a flavor."""

    name: str | None = None
    nominal_quota: Amount | None = None
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorQuotasWire(Wire):
    """A flavor with its quotas."""

    name: str | None = None
    resources: list[QuotaWire] | None = None


class ResourceGroupWire(Wire):
    """Resources that are given out together."""

    flavors: list[FlavorQuotasWire] | None = None


class ResourceUsageWire(Wire):
    """Usage of one resource of a flavor."""

    name: str | None = None
    total: Amount | None = None
    borrowed: Amount | None = None


class FlavorUsageWire(Wire):
    """A flavor with its usage."""

    name: str | None = None
    resources: list[ResourceUsageWire] | None = None


def _limit(resource: str, amount: Amount | None) -> int | None:
    return None if amount is None else parse_amount(resource, amount)


def quotas_of(groups: list[ResourceGroupWire] | None) -> tuple[Quota, ...]:
    """Quotas over all groups and flavors, in the order written, which is the order Kueue tries them in."""
    return tuple(
        Quota(
            flavor=shared(flavor.name),
            resource=shared(each.name),
            nominal=parse_amount(each.name or "", each.nominal_quota or 0),
            borrowing_limit=_limit(each.name or "", each.borrowing_limit),
            lending_limit=_limit(each.name or "", each.lending_limit),
        )
        for group in groups or ()
        for flavor in group.flavors or ()
        for each in flavor.resources or ()
    )


def usages_of(flavors: list[FlavorUsageWire] | None) -> tuple[Usage, ...]:
    """Usage over all flavors."""
    return tuple(
        Usage(
            flavor=shared(flavor.name),
            resource=shared(each.name),
            total=parse_amount(each.name or "", each.total or 0),
            borrowed=parse_amount(each.name or "", each.borrowed or 0),
        )
        for flavor in flavors or ()
        for each in flavor.resources or ()
    )
