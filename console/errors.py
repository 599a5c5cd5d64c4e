"""The errors that a person can act on, as a class hierarchy."""

from __future__ import annotations


class ConsoleError(Exception):
    """The failure and its reason, in one sentence; `hint` is the next step."""

    exit_code = 1  # what a plain command exits with when this ends it

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class BadInput(ConsoleError):
    """A value, file or option the person gave cannot be used."""

    exit_code = 2


class NotThere(BadInput):
    """Something that the person named does not exist: a pod of a job, a container, a run, a profile."""

    exit_code = 1


class BadKubeconfig(BadInput):
    """The kubeconfig is missing or invalid, or refers to something that does not exist."""


class Refused(ConsoleError):
    """The API server refused the request.

    `status` is the HTTP status, `reason` the Status object's one-word reason ("Forbidden", "AlreadyExists"),
    `retry_after` the seconds to wait, 0 when the server named none.
    """

    def __init__(
        self, message: str, hint: str = "", *, status: int = 0, reason: str = "", retry_after: float = 0
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class NotAllowed(Refused):
    """403: the account may not do this."""

    exit_code = 3


def read_only_error(action: str) -> NotAllowed:
    """The error that read-only mode forbids `action`, such as "delete pod a"."""
    return NotAllowed(f"Could not {action}: the console is in read-only mode.", "Start it without --read-only.")


class ApiDisabled(NotAllowed):
    """A Google API is not enabled in the project; `service` is its name, "container.googleapis.com"."""

    def __init__(self, message: str, hint: str = "", *, service: str = "") -> None:
        super().__init__(message, hint, status=403, reason="SERVICE_DISABLED")
        self.service = service


class NotLoggedIn(Refused):
    """401: the token or certificate is refused or has expired."""

    exit_code = 3


class NotFound(Refused):
    """404: the object or its API does not exist."""


class Conflict(Refused):
    """409: the object exists already, or was changed meanwhile."""


class Gone(Refused):
    """410: the resourceVersion is too old, and a new list is needed."""


TRY_AGAIN = "Try again in a moment."
"""The hint for failures that may pass by themselves; a caller that retries replaces it."""


class Unreachable(ConsoleError):
    """No response (network, TLS, DNS, timeout), or a 5xx of the API server, whose code is `status`."""

    exit_code = 4

    def __init__(self, message: str, hint: str = "", *, status: int = 0) -> None:
        super().__init__(message, hint)
        self.status = status


class Unreadable(ConsoleError):
    """A response could not be parsed."""


class ReleaseFailed(ConsoleError):
    """Helm failed to render, install or remove a release; `half_made`: (namespace, name) of a leftover release."""

    def __init__(self, message: str, hint: str = "", *, half_made: tuple[str, str] | None = None) -> None:
        super().__init__(message, hint)
        self.half_made = half_made


class ProgramFailed(ConsoleError):
    """A command in a pod ended with an error; `code` is its exit code."""

    def __init__(self, message: str, hint: str = "", *, code: int = 1) -> None:
        super().__init__(message, hint)
        self.code = code


class CopyFailed(ConsoleError):
    """A copy ended early; it can be resumed. `code` is the exit code of the failed command, if any."""

    def __init__(self, message: str, hint: str = "", *, code: int = 0) -> None:
        super().__init__(message, hint)
        self.code = code


class HostKeyChanged(ConsoleError):
    """A pod's SSH host key differs from the known one without an explanation."""


class KeyRefused(ConsoleError):
    """The pod's SSH server accepts none of the person's keys."""
