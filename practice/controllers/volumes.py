"""The volume controller: binds claims to a named volume, or to a new one of their storage class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from practice.controllers.base import Controller
from practice.controllers.objects import Key, Object, is_being_deleted, key_of
from practice.objects.api_error import ApiError
from practice.objects.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES, Resource

_PROVISIONING_SECONDS = 4.0
_NO_VOLUME = "no persistent volumes available for this claim and no storage class is set"


class VolumeController(Controller):
    """Binds claims to volumes, as a part of Kubernetes' volume controller does."""

    source = "persistentvolume-controller"

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Return the claim that changed, or for a volume the claim that it is reserved for."""
        return {PERSISTENTVOLUMECLAIMS: lambda obj: [key_of(obj)], PERSISTENTVOLUMES: self._volume_and_claim_keys}

    def reconcile(self, key: Key) -> None:
        """Bind one claim, or for keys without namespace update one volume."""
        if not key[0]:
            self._update_volume(key)
            return
        claim = self.storage.find(PERSISTENTVOLUMECLAIMS, *key)
        if claim is None or is_being_deleted(claim) or claim.get("status", {}).get("phase") == "Bound":
            return
        self._set_phase(PERSISTENTVOLUMECLAIMS, claim, "Pending")
        volume = self._find_volume(claim)
        if volume is not None:
            self._bind_claim(claim, volume)
        elif not claim["spec"].get("volumeName"):
            self._provision_volume(claim)

    def _volume_and_claim_keys(self, volume: Object) -> list[Key]:
        kept = volume["spec"].get("claimRef") or {}
        return [key_of(volume), (kept.get("namespace", ""), kept.get("name", ""))] if kept else [key_of(volume)]

    def _update_volume(self, key: Key) -> None:
        """Set whether a volume is Available, Bound or Released."""
        volume = self.storage.find(PERSISTENTVOLUMES, *key)
        if volume is None:
            return
        kept = volume["spec"].get("claimRef") or {}
        if not kept.get("uid"):
            self._set_phase(PERSISTENTVOLUMES, volume, "Available")
            return
        claim = self.storage.find(PERSISTENTVOLUMECLAIMS, kept["namespace"], kept["name"])
        taken = claim is not None and claim["metadata"]["uid"] == kept["uid"]
        self._set_phase(PERSISTENTVOLUMES, volume, "Bound" if taken else "Released")

    def _find_volume(self, claim: Object) -> Object | None:
        key = key_of(claim)
        for volume in self.storage.list(PERSISTENTVOLUMES):
            kept = volume["spec"].get("claimRef") or {}
            wanted = claim["spec"].get("volumeName") in (None, "", volume["metadata"]["name"])
            if wanted and not kept.get("uid") and (kept.get("namespace"), kept.get("name")) == key:
                return volume
        return None

    def _provision_volume(self, claim: Object) -> None:
        name = claim["spec"].get("storageClassName")
        if not name:
            self.record_event(claim, "FailedBinding", _NO_VOLUME)
            return
        if self.storage.find(STORAGECLASSES, "", name) is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self.record_event(claim, "ProvisioningFailed", text, "Warning")
            return
        volume = f"pvc-{claim['metadata']['uid']}"
        if self.storage.find(PERSISTENTVOLUMES, "", volume) is not None:
            return

        def made() -> None:
            with suppress(ApiError):  # made in the meantime
                self.storage.create(PERSISTENTVOLUMES, _new_volume(volume, claim))
                self.record_event(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {volume}")

        self.clock.call_later(_PROVISIONING_SECONDS, made)

    def _bind_claim(self, claim: Object, volume: Object) -> None:
        spec, meta = volume["spec"], claim["metadata"]
        kept = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        }
        self.storage.modify(PERSISTENTVOLUMES, *key_of(volume), lambda draft: draft["spec"].update(claimRef=kept))

        def name_volume(obj: Object) -> None:
            obj["spec"]["volumeName"] = volume["metadata"]["name"]
            obj["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"

        def bound(obj: Object) -> None:
            status = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": spec.get("capacity")}
            obj["status"] = {key: value for key, value in status.items() if value}

        self.storage.modify(PERSISTENTVOLUMECLAIMS, *key_of(claim), name_volume)
        self.storage.modify_status(PERSISTENTVOLUMECLAIMS, *key_of(claim), bound)

    def _set_phase(self, resource: Resource, obj: Object, phase: str) -> None:
        if obj.get("status", {}).get("phase") != phase:

            def change(obj: Object) -> None:
                obj.setdefault("status", {})["phase"] = phase

            self.storage.modify_status(resource, *key_of(obj), change)


def _new_volume(name: str, claim: Object) -> Object:
    spec, meta = claim["spec"], claim["metadata"]
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "capacity": {"storage": asked},
            "claimRef": {"namespace": meta["namespace"], "name": meta["name"]},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
        },
    }
