"""A log file for every container of every pod: kwok serves it, a test appends to it."""

import datetime
import http.client
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.api import Api, ApiRefusedError
from tests.lab.machines import Object

BULK = "a4-lab/bulk"
"""Label of pods that exist in thousands and have no logs."""
LOGS = "/apis/kwok.x-k8s.io/v1alpha1/namespaces/{namespace}/logs"


@dataclass(slots=True)
class PodLogs:
    """Follows the pods and keeps one `Logs` object beside each; kwok has no pattern for a path per pod."""

    folder: Path
    api: Api
    closing: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._follow, name="pod-logs", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Call once the API server has gone: that is what ends the watch."""
        self.closing.set()
        if self.thread is not None:
            self.thread.join(10)

    def file(self, namespace: str, pod: str, container: str) -> Path:
        return self.folder / namespace / pod / f"{container}.log"

    def draw(self, namespace: str, pod: str, container: str, text: str) -> None:
        """Write a part of a line, as the runtime does where a program goes on and on without a line end."""
        self._write(namespace, pod, container, [f"P {text}"])

    def append(self, namespace: str, pod: str, container: str, lines: Iterable[str]) -> None:
        """Write lines to a pod's log as the container runtime would."""
        self._write(namespace, pod, container, (f"F {line}" for line in lines))

    def _write(self, namespace: str, pod: str, container: str, entries: Iterable[str]) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        file = self.file(namespace, pod, container)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as log:
            log.writelines(f"{now} stdout {entry}\n" for entry in entries)

    def _follow(self) -> None:
        query = f"labelSelector=%21{BULK.replace('/', '%2F')}"
        while not self.closing.wait(0.1):
            try:
                listed = self.api.request("GET", f"/api/v1/pods?{query}")
                for pod in listed["items"]:
                    self._serve(pod)
                version = listed["metadata"]["resourceVersion"]
                for event in self.api.watch(f"/api/v1/pods?{query}&watch=true&resourceVersion={version}"):
                    if event["type"] == "ADDED":
                        self._serve(event["object"])
                    elif event["type"] == "DELETED":
                        self._forget(event["object"])
            except (OSError, http.client.HTTPException, ApiRefusedError):
                continue  # the API server restarts or goes: list again until told to close

    def _serve(self, pod: Object) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        files = {each["name"]: self.file(namespace, name, each["name"]) for each in pod["spec"]["containers"]}
        for file in files.values():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        entries = [{"containers": [container], "logsFile": str(file)} for container, file in files.items()]
        served = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "Logs",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"logs": entries},
        }
        self._unless(409, "POST", LOGS.format(namespace=namespace), served)

    def _forget(self, pod: Object) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self._unless(404, "DELETE", f"{LOGS.format(namespace=namespace)}/{name}")

    def _unless(self, expected: int, method: str, path: str, body: Object | None = None) -> None:
        """Send; a namespace on its way out refuses with 403, and needs no log."""
        try:
            self.api.request(method, path, body)
        except ApiRefusedError as refused:
            if refused.status not in (expected, 403, 404):
                raise
