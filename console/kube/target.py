"""One kubeconfig context with its cluster and user entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, SupportsIndex

from msgspec import Struct, field


class Secret(str):
    """A string that may be passed on but not shown: its repr hides it, also in crash reports."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(hidden)"

    def __getitem__(self, key: SupportsIndex | slice) -> Secret:
        return Secret(super().__getitem__(key))


class Masked(Struct, rename="kebab"):
    """A part of a kubeconfig that may hold a secret: its repr hides the values."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # crash reports print what locals hold
        return []


class Cluster(Masked):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[dict[str, Any]] | None = None
    practice_folder: Path | None = None
    """Where a practice cluster keeps what goes with it; None: it is a real one."""


class User(Masked):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None
    source: Callable[[], Awaitable[tuple[str, float]]] | None = None
    """Gives a bearer token and when it ends (seconds since the epoch); asked again before that."""


class Target(Masked):
    """One context with its cluster and user; all file paths are absolute."""

    context: str
    user_name: str
    namespace: str
    cluster: Cluster
    user: User
