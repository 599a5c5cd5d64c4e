"""Port-forwarding to pods over WebSockets: one connection per pipe, so that a stalled one cannot block another.

Protocol v4 has two channels, a byte of overhead per message, and no way to close one direction. Nothing is buffered
here: while one side does not read, nothing is read from the other.

The pod that currently has an index is found with two small requests sent together.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from console.errors import ConsoleError, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.kube.objects.meta import is_condition_true
from console.kube.objects.pod import Pod
from console.kube.pod_address import PodAddress
from console.kube.raw_connection import RawResponse, error_from_raw_response
from console.kube.watched_kinds import reader_of

if TYPE_CHECKING:
    from console.kube.login import Login
    from console.kube.objects.jobset import JobSet
    from console.kube.raw_connection import RawConnection
    from console.kube.websocket import WebSocket


@dataclass(frozen=True, slots=True)
class LivePod:
    namespace: str
    name: str
    uid: str = ""
    container: str = ""  # the one that does the work
    number: int = -1  # of the rank over the whole job; -1 for a pod by name


JOBSET_API_PATH = "/apis/jobset.x-k8s.io/v1alpha2"
_OK, _NOT_FOUND = 200, 404
_MAX_LISTED_JOBS = 500  # jobs that are listed to find the one that was meant


class JobEnded(NotFound):
    """Raised when the job has ended or is gone, and will not come back."""


class PodPending(NamedTuple):
    """The result if no pod of the rank can be connected to yet; `words` is the reason, phrased to end a sentence."""

    words: str


async def find_live_pod(connection: RawConnection, login: Login, address: PodAddress) -> LivePod | PodPending:
    """The live pod of a rank, or the reason why there is none yet. Raises BadInput, JobEnded and Refused."""
    if address.pod:
        return await _find_named_pod(connection, login, address)
    path = f"{JOBSET_API_PATH}{_describe_namespace(address)}/jobsets/{quote(address.job, safe='')}"
    jobset_answer, pods_answer = await connection.get(path, _pods_path(address, completion_index=address.number))
    body = await _response_body(jobset_answer, login, f"read job {address.job}")
    if body is None:
        hint = await _other_jobs_hint(connection, login, address)
        raise JobEnded(f"There is no job {address.job} in namespace {address.namespace}.", hint, status=_NOT_FOUND)
    jobset: JobSet = reader_of("jobsets").read_object(body, f"Job {address.job}")
    number, place = address.find_place(jobset)
    if place[2] != address.number:  # the guess that saved a round trip was wrong
        (pods_answer,) = await connection.get(_pods_path(address, completion_index=place[2]))
    listed = await _response_body(pods_answer, login, f"find {address}") or b"{}"
    pods = reader_of("pods")
    found: dict[tuple[str, str], Pod] = pods.build_models(pods.read_page(listed).items)[0]
    pod = jobset.live_pods(pod for pod in found.values() if pod.jobset_uid in {jobset.uid, ""}).get(place)
    return _live_pod_at(jobset, number, pod)


def _describe_namespace(address: PodAddress) -> str:
    return f"/namespaces/{quote(address.namespace, safe='')}"


async def _other_jobs_hint(connection: RawConnection, login: Login, address: PodAddress) -> str:
    """A hint that names other namespaces with a job of that name, else the jobs that may be listed."""
    from console.kube.find_job import format_other_namespaces, known_jobs_hint  # ssh waits for imports

    async def list_jobs(path: str) -> Iterable[tuple[str, str]]:
        (answer,) = await connection.get(f"{JOBSET_API_PATH}{path}")
        found = await _response_body(answer, login, f"look for job {address.job}") or b"{}"
        reader = reader_of("jobsets")
        return sorted(reader.build_models(reader.read_page(found).items)[0])

    with suppress(ConsoleError):
        everywhere = await list_jobs(f"/jobsets?{urlencode({'fieldSelector': f'metadata.name={address.job}'})}")
        if there := format_other_namespaces([namespace for namespace, _ in everywhere]):
            return there
    with suppress(ConsoleError):
        return known_jobs_hint(
            address.job,
            [name for _, name in await list_jobs(f"{_describe_namespace(address)}/jobsets?limit={_MAX_LISTED_JOBS}")],
        )
    return "`a4 jobs -A` lists all there are."


def _pods_path(address: PodAddress, completion_index: int) -> str:
    selector = (
        f"jobset.sigs.k8s.io/jobset-name={address.job},batch.kubernetes.io/job-completion-index={completion_index}"
    )
    return f"/api/v1{_describe_namespace(address)}/pods?{urlencode({'labelSelector': selector})}"


async def _response_body(answer: RawResponse, login: Login, action: str) -> bytes | None:
    """The body of a response; None for 404, other failures are raised."""
    if answer.status == _NOT_FOUND:
        return None
    if answer.status != _OK:
        raise await error_from_raw_response(login, answer, action)
    return answer.body


def _live_pod_at(jobset: JobSet, number: int, pod: Pod | None) -> LivePod | PodPending:
    """The live pod with that index, or the reason why it cannot be connected to. JobEnded if the job has ended."""
    if pod and _is_running(pod):
        return _live_pod_of(pod, number)
    for word in ("Completed", "Failed"):
        if jobset.terminal_state == word or is_condition_true(jobset.conditions, word):
            raise JobEnded(f"{jobset.name} has ended ({word.lower()}): no pod of it can be reached.", status=_NOT_FOUND)
    if pod and not pod.deletion_asked_at and not pod.finished:
        return PodPending(f"its pod {pod.name} is {_why_not_running(pod)}")
    if pod:
        state = "is being deleted" if pod.deletion_asked_at else f"has ended ({pod.phase.lower()})"
        return PodPending(f"its pod {pod.name} {state} and no other is there yet")
    return PodPending("the job waits for quota" if jobset.suspended else "it has no pod yet")


async def _find_named_pod(connection: RawConnection, login: Login, address: PodAddress) -> LivePod | PodPending:
    """The pod of that name, or the reason why it cannot be connected to. Raises JobEnded once it is deleted."""
    (answer,) = await connection.get(f"/api/v1{_describe_namespace(address)}/pods/{quote(address.pod, safe='')}")
    body = await _response_body(answer, login, f"read pod {address.pod}")
    if body is None:
        raise JobEnded(f"There is no pod {address.pod} in namespace {address.namespace}.", status=_NOT_FOUND)
    pod: Pod = reader_of("pods").read_object(body, f"Pod {address.pod}")
    if pod.finished:
        raise JobEnded(f"Pod {address.pod} has ended ({pod.phase.lower()}).", status=_NOT_FOUND)
    return _live_pod_of(pod, -1) if _is_running(pod) else PodPending(f"it is {_why_not_running(pod)}")


def _live_pod_of(pod: Pod, number: int) -> LivePod:
    return LivePod(pod.namespace, pod.name, pod.uid, pod.main.name if pod.main else "", number)


def _is_running(pod: Pod) -> bool:
    return pod.phase == "Running" and not pod.deletion_asked_at


def _why_not_running(pod: Pod) -> str:
    """The reason of the scheduler or the kubelet why a pod does not run yet."""
    if pod.deletion_asked_at:
        return "being deleted"
    waiting = (each.reason for each in pod.containers if each.state == "waiting")
    reason = next((each for each in waiting if each not in {"", "PodInitializing"}), "")
    if not reason and (pod.gated or pod.unschedulable):
        reason = "SchedulingGated" if pod.gated else "Unschedulable"
    return f"pending ({reason})" if reason else pod.phase.lower()


PROTOCOL = "v4.channel.k8s.io"
DATA_CHANNEL, ERROR_CHANNEL = 0, 1
_PORT_BYTES = 2  # bytes with which each channel begins: the port number, for a request may ask for several
MAX_FORWARD_MESSAGE_BYTES = 1 << 16  # most bytes in one message: a kubelet holds each as a whole


class Receiver(Protocol):
    def data(self, data: bytes) -> None:
        """Called with bytes from the pod."""

    def on_buffer_full(self, is_paused: bool) -> None:
        """Called with True when writing has to pause, with False when it may go on."""

    def end(self, why: str) -> None:
        """Called when the pod's side has ended; `why` is empty after a plain close."""


class Pipe:
    """A connection to one port of a pod; the receiver passed to `attach` gets what arrives."""

    def __init__(self, socket: WebSocket, label: str) -> None:
        self._socket = socket
        self._description = label
        self._receiver: Receiver | None = None
        self._parts: list[memoryview | bytes] = []
        self._error_text = bytearray()  # what the error channel says
        self._at_message_start = False  # whether a message has begun whose channel has not come yet
        self._channel = DATA_CHANNEL
        self._port_bytes_left = [_PORT_BYTES, _PORT_BYTES]
        self.closed = False

    def attach(self, receiver: Receiver) -> None:
        """Start to pass everything that arrives to the receiver, from within the event loop."""
        self._receiver = receiver
        self._socket.listen(self)

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), MAX_FORWARD_MESSAGE_BYTES):
            self._socket.send(b"\x00", data[at : at + MAX_FORWARD_MESSAGE_BYTES])

    def pause(self) -> None:
        self._socket.pause()

    def resume(self) -> None:
        self._socket.resume()

    def ping(self) -> None:
        self._socket.ping()

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open as far as is known; nothing is read from it before `attach`."""
        return not self.closed and self._socket.is_open

    def close(self) -> None:
        self.closed = True
        self._receiver = None
        self._socket.close()

    def begin(self) -> None:
        self._at_message_start = True

    def feed(self, data: memoryview) -> None:
        """Accept a part of a WebSocket message: the first byte is the channel; a channel's first bytes are the port."""
        if self._at_message_start:
            self._at_message_start, self._channel, data = False, data[0], data[1:]
        if self._channel > ERROR_CHANNEL:
            return
        if head := self._port_bytes_left[self._channel]:
            taken = min(head, len(data))
            self._port_bytes_left[self._channel] -= taken
            data = data[taken:]
        if self._channel == ERROR_CHANNEL:
            self._error_text += data
        elif data:
            self._parts.append(data)

    def on_chunk_fed(self) -> None:
        """Pass the parts that arrived together to the receiver as one; they are views, valid only during this call."""
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if self._receiver:
                self._receiver.data(data)

    def on_buffer_full(self, is_paused: bool) -> None:
        if self._receiver:
            self._receiver.on_buffer_full(is_paused)

    def ended(self, why: str) -> None:
        """Called when the connection, or the pod's side of it, has ended."""
        self.on_chunk_fed()
        if self.closed:
            return
        self.closed = True
        self._socket.close()
        receiver, self._receiver = self._receiver, None
        if receiver:
            receiver.end(self._error_reason(why))

    def _error_reason(self, why: str) -> str:
        text = " ".join(self._error_text.decode(errors="replace").split()).rstrip(".")
        if "connection refused" in text.lower():
            return f"Nothing listens on {self._description}."
        if text:
            return f"Could not reach {self._description}: {text}."
        return f"The connection to {self._description} broke off: {why}." if why else ""


async def open_pipe(connection: RawConnection, login: Login, namespace: str, pod: str, port: int) -> Pipe:
    """Open a pipe to that port over this connection; raises Refused and its subclasses, Unreachable."""
    what = f"port {port} of pod {pod}"
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/portforward"
    made = await connection.upgrade(f"{path}?ports={port}", PROTOCOL)
    if isinstance(made, RawResponse):
        await _raise_upgrade_error(made, login, f"reach {what}")
        hint = f"Try: kubectl port-forward -n {namespace} pod/{pod} {port}"
        raise Unreachable(f"Could not reach {what}: the API server does not take the protocol {PROTOCOL}.", hint)
    return Pipe(made, what)


async def _raise_upgrade_error(answer: RawResponse, login: Login, action: str) -> None:
    """Raise the error of a refused WebSocket upgrade, unless another protocol may be accepted."""
    if answer.status < 300:
        return
    error = await error_from_raw_response(login, answer, action)
    if isinstance(error, NotFound | NotLoggedIn) or _is_about_pod(error):
        raise error


def _is_about_pod(error: ConsoleError) -> bool:
    """Whether a refusal concerns rights or the pod; a refused protocol gives 400, 403, 405, 426 or 501."""
    if isinstance(error, NotAllowed):
        return error.reason == "Forbidden"
    if isinstance(error, Refused):
        return error.status not in {400, 405, 426}
    return "answered 501" not in error.message
