"""The status of ResourceQuotas: usage against the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from practice.admission.quotas import compute_usage, format_amounts
from practice.controllers.base import Controller
from practice.controllers.objects import Key, Object, key_of
from practice.controllers.quantity import parse_amounts
from practice.objects.resources import EVENTS, RESOURCEQUOTAS, RESOURCES, Resource


class QuotaController(Controller):
    """Counts the usage of quotas anew whenever something in their namespace changes."""

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Return the quotas of the namespace when a quota or an object that quotas count changes."""
        return {kind: self._quotas_of_namespace for kind in RESOURCES if kind.namespaced and kind is not EVENTS}

    def _quotas_of_namespace(self, obj: Object) -> list[Key]:
        return [key_of(quota) for quota in self.storage.list(RESOURCEQUOTAS, obj["metadata"]["namespace"])]

    def reconcile(self, key: Key) -> None:
        quota = self.storage.find(RESOURCEQUOTAS, *key)
        if quota is None:
            return
        hard = parse_amounts(quota["spec"].get("hard"))
        status = {"hard": format_amounts(hard), "used": format_amounts(compute_usage(self.storage, key[0], hard))}
        if quota.get("status") != status:

            def write(obj: Object) -> None:
                obj["status"] = status

            self.storage.modify_status(RESOURCEQUOTAS, *key, write)
