"""Credentials for one API server: TLS settings, and an Authorization header that is renewed before it expires.

Static credentials (certificate, token, token file, password) are read here; exec credential plugins (GKE, EKS, OIDC)
run here, by client.authentication.k8s.io v1 and v1beta1. The `kubernetes` library would take half a second to import,
let a plugin read the terminal, and not stop one that takes too long; only auth providers still need that library.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib
import os
import signal
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from console.errors import BadKubeconfig, ConsoleError, NotLoggedIn, Unreadable
from console.kube.kubeconfig import Cluster, Masked, Secret, Target, User, is_loopback, proxy_of
from console.kube.objects.meta import parse_time

PLUGIN_TIMEOUT = 60.0  # seconds a credential plugin may take
PLUGIN_SLOW_SECONDS = 10.0  # seconds after which one that has not answered is named
LOG_IN = "Run it by hand, or log in again (for GKE: gcloud auth login)."
_INSTALL_GKE_PLUGIN = (
    "Install gke-gcloud-auth-plugin, then write the entry again: gcloud container clusters get-credentials CLUSTER."
)
_MAX_SHOWN_STDERR = 300  # characters of a program's complaint that are shown


class Credential(Masked):
    """Credentials from a login; the repr shows none of them."""

    authorization: str = ""
    certificate: str = ""  # client certificate and key, PEM
    key: str = ""
    expires_at: float = 0.0  # when it has to be asked for again; 0.0 if it did not say


async def run_credential_plugin(spec: Mapping[str, Any], cluster: Cluster) -> Credential:
    """Run the exec credential program of a kubeconfig user for that cluster; raises NotLoggedIn."""
    program = str(spec.get("command") or "")
    if not program or not spec.get("apiVersion"):
        missing = "apiVersion" if program else "command"
        raise NotLoggedIn(f"The kubeconfig's credential plugin has no {missing}.", "Write the kubeconfig again.")
    if spec.get("interactiveMode") == "Always":
        why = f"The credential plugin {program} needs a terminal of its own (interactiveMode: Always)."
        raise NotLoggedIn(why, LOG_IN)
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT):
            environment = await asyncio.to_thread(_plugin_environment, spec, cluster)
            code, out, complaint = await _run_program([program, *map(str, spec.get("args") or ())], environment)
    except FileNotFoundError as error:
        hint = str(spec.get("installHint") or "").strip() or f"Install {program}, or put it on the PATH."
        raise NotLoggedIn(f"The credential plugin {program} of the kubeconfig is not installed.", hint) from error
    except PermissionError as error:
        why = f"The credential plugin {program} of the kubeconfig cannot be executed (permission denied)."
        raise NotLoggedIn(why) from error
    except TimeoutError as error:
        raise NotLoggedIn(
            f"The credential plugin {program} did not answer within {PLUGIN_TIMEOUT:.0f} s.", LOG_IN
        ) from error
    if len(out) > MAX_PLUGIN_OUTPUT_BYTES:
        raise NotLoggedIn(
            f"The credential plugin {program} prints more than {MAX_PLUGIN_OUTPUT_BYTES >> 20} MiB.", LOG_IN
        )
    if code:
        words = " ".join(complaint.decode(errors="replace").split())[-_MAX_SHOWN_STDERR:].rstrip(".")
        reason = f": {words}" if words else ""
        raise NotLoggedIn(f"The credential plugin {program} failed with exit code {code}{reason}.", LOG_IN)
    return _parse_credential(program, out, str(spec["apiVersion"]))


async def _ask_provider(provider: dict[str, Any]) -> Credential:
    """Ask an auth provider (OIDC, the old GCP one) for a token, refreshing it if it is old; raises NotLoggedIn."""
    await asyncio.to_thread(importlib.import_module, "kubernetes.aio.config.kube_config")  # half a second
    from kubernetes.aio import client, config
    from kubernetes.aio.config.kube_config import KubeConfigLoader

    name = str(provider.get("name", ""))
    kubeconfig = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": "https://localhost"}}],
        "users": [{"name": "one", "user": {"auth-provider": provider}}],
    }
    found = client.Configuration()
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT):
            await KubeConfigLoader(kubeconfig).load_and_set(found)
    except (config.ConfigException, ValueError, KeyError, binascii.Error, OSError, TimeoutError) as error:
        if name == "gcp":
            why = (
                'The kubeconfig logs in by the auth provider "gcp", which Kubernetes has removed, and it gave no token.'
            )
            raise NotLoggedIn(why, _INSTALL_GKE_PLUGIN) from error
        raise NotLoggedIn(f'The auth provider "{name}" of the kubeconfig failed: {error}.', LOG_IN) from error
    token = found.api_key.get("BearerToken", "")
    if not token:
        raise NotLoggedIn(f'The kubeconfig uses the auth provider "{name}", which gave no token.', LOG_IN)
    return Credential(token)


MAX_PLUGIN_OUTPUT_BYTES = 1 << 20  # bytes that a plugin may print: an ExecCredential has a few thousand


def _kill_group(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(process.pid, signal.SIGKILL)  # what a script has started holds its output open, too


async def _read_output(process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None) -> bytes:
    """The output of a program, empty without a stream; if it is too much, the program is killed but read to its end."""
    found = bytearray()
    while stream is not None and (piece := await stream.read(1 << 16)):
        found += piece[: MAX_PLUGIN_OUTPUT_BYTES + 1 - len(found)]
        if len(found) > MAX_PLUGIN_OUTPUT_BYTES:
            _kill_group(process)
    return bytes(found)


async def _run_program(argv: list[str], environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Run a program and return its exit code, stdout and stderr; it is killed if the caller is cancelled."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,  # the terminal is the console's
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        printed = process.stdout, process.stderr
        out, complaint = await asyncio.gather(*(_read_output(process, each) for each in printed))
        await process.wait()
    except asyncio.CancelledError:
        _kill_group(process)
        await process.wait()
        raise
    return process.returncode or 0, out, complaint


def _plugin_environment(spec: Mapping[str, Any], cluster: Cluster) -> dict[str, str]:
    asked: dict[str, Any] = {"interactive": False}
    if spec.get("provideClusterInfo"):
        authority = _read_pem(
            cluster.certificate_authority_data, cluster.certificate_authority, "certificate authority"
        )
        extensions = {each.get("name"): each.get("extension") for each in cluster.extensions or ()}
        facts = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(authority.encode()).decode() or None,
            "proxy-url": cluster.proxy_url,
            "config": extensions.get("client.authentication.k8s.io/exec"),
        }
        asked["cluster"] = {name: value for name, value in facts.items() if value is not None}
    import json

    info = {"apiVersion": spec["apiVersion"], "kind": "ExecCredential", "spec": asked}
    more = {str(each["name"]): str(each["value"]) for each in spec.get("env") or ()}
    return {**os.environ, **more, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _parse_credential(program: str, output: bytes, version: str) -> Credential:
    import json

    try:
        answer = json.loads(output)
        status, printed = answer["status"], answer.get("apiVersion")
        token, certificate, key = (
            Secret(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
        )
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        # Without the cause: it would carry the output, and so perhaps a token, into a traceback.
        raise NotLoggedIn(f"The credential plugin {program} gave no ExecCredential.", LOG_IN) from None
    if printed != version:
        raise NotLoggedIn(
            f"The credential plugin {program} speaks {printed}; the kubeconfig expects {version}.", LOG_IN
        )
    if not token and not (certificate and key):
        raise NotLoggedIn(f"The credential plugin {program} gave neither a token nor a certificate.", LOG_IN)
    try:
        expires = parse_time(status.get("expirationTimestamp"))
    except Unreadable:
        expires = 0.0
    return Credential(f"Bearer {token}" if token else "", certificate, key, expires)


RENEW_BEFORE_SECONDS = 120.0  # seconds before its end at which a token is renewed
REREAD_TOKEN_FILE_SECONDS = 60.0  # after which a token file is read again: the kubelet replaces it while it is in use
PLUGIN_TOKEN_SECONDS = 600.0  # seconds after which a plug-in is asked again that did not say how long its token lives
MIN_SECONDS_BETWEEN_PLUGIN_RUNS = 10.0  # seconds between two runs of a plug-in whose tokens are about to end


class Certificates(Masked):
    """The PEM texts of a TLS connection; a text is empty where there is none."""

    authority: str  # whom to trust; empty: those whom this machine trusts
    client_pem: Secret  # certificate and key
    insecure: bool  # whether the server may show any certificate


class Login:
    """The credentials of one context, renewed when they expire; its repr shows none."""

    def __init__(self, target: Target, *, clock: Callable[[], float] = time.time) -> None:
        self.target = target
        self.server = target.cluster.server.rstrip("/")
        self._clock = clock
        self._authorization = Secret()
        self._expires_at = float("inf")
        self._certificate = Secret()
        self._tls: ssl.SSLContext | None = None
        self._certificates: Certificates | None = None
        self._renewal_lock = asyncio.Lock()
        self._is_ready = False
        self._running_plugin: tuple[str, float] | None = None  # the plugin that runs, and since when
        self._answered_at = float("-inf")  # when one ended
        self._failed: tuple[float, NotLoggedIn] | None = None  # when it failed last, and how

    def unanswered_error(self, seconds: float = 0.0) -> NotLoggedIn | None:
        """NotLoggedIn if a credential plugin has run for at least `seconds` without an answer, else None."""
        if self._running_plugin is None or self._clock() - self._running_plugin[1] < seconds:
            return None
        program, since = self._running_plugin
        words = f"The credential plugin {program} has not answered for {self._clock() - since:.0f} s."
        return NotLoggedIn(words, LOG_IN)

    def idle_seconds(self) -> float:
        """Seconds since a credential plugin last ended; 0 while one runs."""
        return 0.0 if self._running_plugin else self._clock() - self._answered_at

    def __repr__(self) -> str:
        return f"<Login {self.target.context} {self.server}>"

    @property
    def loopback(self) -> bool:
        return is_loopback(urlsplit(self.server).hostname or "")

    @property
    def unverified(self) -> bool:
        return bool(self.target.cluster.insecure_skip_tls_verify) and self.server.startswith("https:")

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate must have, if it is not the host name; else None."""
        return self.target.cluster.tls_server_name

    @cached_property
    def proxy(self) -> Secret:
        """URL of the proxy to use for this server; empty for none. Raises BadKubeconfig."""
        return proxy_of(self.server, self.target.cluster.proxy_url)

    async def headers(self) -> dict[str, str]:
        """Headers with renewed credentials; none over plain HTTP. Raises NotLoggedIn or BadKubeconfig."""
        if not self.server.startswith("https:"):
            return {}  # as kubectl: whoever is on the way could read them
        began = self._clock()
        async with self._renewal_lock:
            if self._failed is not None and self._failed[0] >= began:  # who waited for it does not run it once more
                raise NotLoggedIn(self._failed[1].message, self._failed[1].hint)
            if not self._is_ready or self._clock() > self._expires_at - RENEW_BEFORE_SECONDS:
                await self._obtain_credentials()
        acts = {name: values[0] for name, values in self.target.user.impersonation().items()}
        return acts | ({"Authorization": self._authorization} if self._authorization else {})

    async def renew(self, refused_headers: dict[str, str]) -> bool:
        """Get new credentials after these were refused; False if they cannot be renewed."""
        user = self.target.user
        if not (user.exec or user.auth_provider or user.token_file or user.token_source):
            return False
        async with self._renewal_lock:
            if refused_headers.get("Authorization", "") == self._authorization:  # else another request has renewed them
                before = (self._authorization, self._certificate)
                await self._obtain_credentials()
                return before != (self._authorization, self._certificate)
        return True

    async def tls(self) -> ssl.SSLContext | None:
        """TLS settings; None for plain HTTP. Raises BadKubeconfig."""
        if self._tls is None and self.server.startswith("https:"):
            self._tls = await asyncio.to_thread(self._make_tls)
        return self._tls

    async def certificates(self, *, checked: bool = True) -> Certificates:
        """The certificates behind `tls` as PEM texts, for libcurl. Raises BadKubeconfig.

        `checked`: the certificate authority is parsed too, which takes 2 ms; a request does that only after a failure.
        """
        if self._certificates is None:
            self._certificates = await asyncio.to_thread(self._read_certificates)
        if checked:
            await asyncio.to_thread(self._check_authority, self._certificates.authority)
        return self._certificates

    async def _obtain_credentials(self) -> None:
        user = self.target.user
        if user.token_source:
            token, ends = await user.token_source()
            self._authorization = Secret(f"Bearer {token}")
            self._expires_at = max(ends, self._clock() + RENEW_BEFORE_SECONDS + MIN_SECONDS_BETWEEN_PLUGIN_RUNS)
        elif user.exec or user.auth_provider:
            await self._ask_plugin(user)
        elif user.token_file:
            self._authorization = Secret("Bearer " + await asyncio.to_thread(_read_secret, user.token_file))
            self._expires_at = self._clock() + REREAD_TOKEN_FILE_SECONDS + RENEW_BEFORE_SECONDS
        elif user.token:
            self._authorization = Secret(f"Bearer {user.token.strip()}")
        elif user.username and user.password is not None:
            pair = f"{user.username}:{user.password}".encode()
            self._authorization = Secret("Basic " + base64.b64encode(pair).decode())
        # A line end in a token would end the header, and what is behind it would be another one.
        self._is_ready = self._authorization.isascii() and self._authorization.isprintable()
        if not self._is_ready:
            why = f'The token or password of user "{self.target.user_name}" has a character not allowed in a header.'
            raise BadKubeconfig(why, "Write the kubeconfig again.")

    async def _ask_plugin(self, user: User) -> None:
        given: Credential
        if user.exec:
            self._running_plugin = str(user.exec.get("command") or ""), self._clock()
            try:
                given = await run_credential_plugin(user.exec, self.target.cluster)
            except NotLoggedIn as error:
                self._failed = self._clock(), error
                raise
            finally:
                self._running_plugin, self._answered_at = None, self._clock()
        else:
            given = await _ask_provider(user.auth_provider or {})
        self._authorization = Secret(given.authorization)
        now = self._clock()
        lives = given.expires_at - now if given.expires_at else PLUGIN_TOKEN_SECONDS + RENEW_BEFORE_SECONDS
        # A token that is handed out shortly before its end must not make every request run the program.
        self._expires_at = now + max(lives, RENEW_BEFORE_SECONDS + MIN_SECONDS_BETWEEN_PLUGIN_RUNS)
        pair = Secret(f"{given.certificate}\n{given.key}" if given.certificate else "")
        if pair and pair != self._certificate:
            self._certificate = pair
            self.forget_certificates()

    def forget_certificates(self) -> None:
        """Drop the cached certificates, since their files may have changed."""
        self._tls = self._certificates = None

    def _read_certificates(self) -> Certificates:
        cluster = self.target.cluster
        authority = _read_pem(
            cluster.certificate_authority_data, cluster.certificate_authority, "certificate authority"
        )
        if authority and cluster.insecure_skip_tls_verify:
            why = f'Context "{self.target.context}" sets both a certificate authority and insecure-skip-tls-verify.'
            raise BadKubeconfig(why, "Remove one of the two from the kubeconfig.")
        return Certificates(authority, self._client_certificate(), bool(cluster.insecure_skip_tls_verify))

    def _check_authority(self, authority: str) -> None:
        if authority and not _holds_certificate(authority):
            what = f'The certificate authority of context "{self.target.context}"'
            why = f"{what} is no certificate: it is cut off or damaged."
            raise BadKubeconfig(why, "Write the kubeconfig again (for GKE: gcloud container clusters get-credentials).")

    def _make_tls(self) -> ssl.SSLContext:
        given = self._read_certificates()
        self._check_authority(given.authority)
        try:
            context = ssl.create_default_context(cadata=given.authority or None)
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # many clusters' authorities predate what it asks for
            if given.client_pem:
                _load_certificate_pair(context, given.client_pem)
        except (ssl.SSLError, ValueError, TypeError) as error:
            what = getattr(error, "reason", "") or "not a certificate"
            why = f'The certificates of context "{self.target.context}" cannot be used: {what}.'
            raise BadKubeconfig(why, "Write the kubeconfig again.") from None
        if given.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _client_certificate(self) -> Secret:
        """Client certificate and key, PEM; empty if there are none. BadKubeconfig if one is missing or unreadable."""
        if self._certificate:
            return self._certificate
        user = self.target.user
        certificate = _read_pem(user.client_certificate_data, user.client_certificate, "client certificate")
        key = _read_pem(user.client_key_data, user.client_key, "client key")
        if bool(certificate) != bool(key):
            what = "client certificate without its key" if certificate else "client key without its certificate"
            raise BadKubeconfig(f'User "{self.target.user_name}" has a {what}.', "Write the kubeconfig again.")
        return Secret(f"{certificate}\n{key}" if certificate else "")

    async def explain(self, error: ConsoleError) -> ConsoleError:
        """The error itself, or an error about the expired client certificate if that explains an "Unauthorized"."""
        until = await asyncio.to_thread(self._certificate_end) if isinstance(error, NotLoggedIn) else None
        if until is None or until > datetime.fromtimestamp(self._clock(), UTC):
            return error
        return NotLoggedIn(
            f'The client certificate of user "{self.target.user_name}" expired on {until:%Y-%m-%d %H:%M} UTC.',
            "Get a new kubeconfig (for GKE: `a4 clusters connect NAME --write-kubeconfig`).",
            status=401,
        )

    def _certificate_end(self) -> datetime | None:
        certificate = self._client_certificate()
        if not certificate:
            return None
        from cryptography import x509  # only an account that was refused needs it

        try:
            return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc
        except ValueError:
            return None


def _holds_certificate(pem: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        return False
    return True


def _read_secret(path: str) -> Secret:
    try:
        return Secret(Path(path).read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "no text"
        raise BadKubeconfig(f"The file {path} that the kubeconfig names cannot be read: {why}.") from None


def _read_pem(data: str | None, path: str | None, subject: str) -> Secret:
    """PEM text from base64 data, else from a file; empty if neither is given. Raises BadKubeconfig if unreadable."""
    if not data:
        return _read_secret(path) if path else Secret()
    try:
        return Secret(base64.b64decode("".join(data.split()), validate=True).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError):
        hint = "Write the kubeconfig again."
        raise BadKubeconfig(f"The {subject} in the kubeconfig is not valid base64.", hint) from None


def _load_certificate_pair(context: ssl.SSLContext, pem: str) -> None:
    """Load a client certificate through a temporary file (mode 0600): OpenSSL reads certificates from files only."""
    import tempfile  # costs 5 ms, and many accounts have no certificate

    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
