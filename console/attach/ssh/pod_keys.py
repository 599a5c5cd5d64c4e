"""The SSH keys of a pod: host keys of its sshd and its release, and the person's key, which an exec command adds."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from console.attach.ssh.host_key_check import PodIdentity
from console.attach.ssh.identities import parse_public_key, public_key_of
from console.decoding import DECODING_ERRORS
from console.errors import NotAllowed, NotFound, ProgramFailed, Unreadable
from console.kube import exec as executing
from console.kube.actions import pod_path
from console.kube.objects.meta import ApiSchema, ObjectSchema
from console.kube.objects.pod import Pod
from console.kube.objects.unwatched_kinds import read_object
from console.kube.watched_kinds import reader_of

if TYPE_CHECKING:
    from console.kube.client import Client

SSHD_PORT = 2222
SSHD_PROBE_SCRIPT = r"""{
u=$(id -un 2>/dev/null || echo root)
h=$(getent passwd "$u" 2>/dev/null | cut -d: -f6)
h=${h:-$HOME}
f=$h/.ssh/authorized_keys
if [ -n "$key" ]; then
    two=$(printf '%s' "$key" | cut -d' ' -f1,2)
    if ! grep -qF -- "$two" "$f" 2>/dev/null; then
        old=$(umask)
        umask 077
        mkdir -p "$h/.ssh" || exit 1
        if [ -s "$f" ] && [ -n "$(tail -c 1 "$f")" ]; then echo >>"$f" || exit 1; fi
        printf '%s\n' "$key" >>"$f" || exit 1
        umask "$old"
    fi
fi
echo "user $u"
echo "folder $(pwd)"
if [ -r "$f" ]; then sed 's/^/authorized /' "$f"; fi
scan() { ssh-keyscan -T 5 -p PORT 127.0.0.1 2>/dev/null | grep -v '^#' | cut -d' ' -f2-; }
served=$(scan)
if [ -z "$served" ]; then served=$(scan); fi
printf '%s\n' "$served" | sed -n 's/^\(.\)/hostkey \1/p'
if [ -z "$served" ]; then
    for each in /etc/ssh/a4_host_key /etc/ssh/ssh_host_*_key; do
        if [ -r "$each" ]; then ssh-keygen -y -P '' -f "$each" 2>/dev/null | sed 's/^/hostfile /'; fi
    done
fi
echo "end yes"
} </dev/null
exit 0
""".replace("PORT", str(SSHD_PORT))
"""Prints a fact per line (user, folder, keys); adds the public key $key, if any, to authorized_keys.

It is sent as stdin, so no error message repeats it. ssh-keyscan in the pod reads the host keys that sshd serves on the
loopback, with a second try; without ssh-keyscan, key files are read, perhaps other keys than those of the running sshd.
"""


_VALID_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")  # as shadow-utils allows it; a `Match exec` may see it
_MAX_PATH = 4096
MAX_PROBE_BYTES = 1 << 18  # bytes of an answer: keys of a thousand people are half of it


class _ContainerSchema(ApiSchema):
    env: list[dict[str, Any]] | None = None


class _VolumeSchema(ApiSchema):
    name: str | None = None
    secret: dict[str, Any] | None = None


class _PodSpecSchema(ApiSchema):
    containers: list[_ContainerSchema] | None = None
    volumes: list[_VolumeSchema] | None = None


class _PodSchema(ObjectSchema):
    spec: _PodSpecSchema | None = None


class _KeySecretSchema(ApiSchema):
    data: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class KeyProbe:
    user: str
    working_folder: str  # working directory of its image
    authorized_keys: tuple[str, ...]
    served_keys: tuple[str, ...]  # host keys that its sshd shows
    file_keys: tuple[str, ...]  # host keys in its files, looked for where none are shown


async def read_pod_identity(client: Client, namespace: str, pod: str) -> PodIdentity:
    """Read a pod's uid and the keys it was launched with. Raises NotFound and the errors of requests."""
    body = await client.request("GET", pod_path(namespace, pod), action=f"read pod {pod}")
    found: Pod = reader_of("pods").read_object(body, f"Pod {pod}")
    spec = read_object(body, _PodSchema).spec or _PodSpecSchema()
    secrets = [each.secret.get("secretName") for each in spec.volumes or () if each.secret and each.name == "ssh"]
    variables = (spec.containers[0].env if spec.containers else None) or ()
    given = next((each.get("value") for each in variables if each.get("name") == "SSH_PUBLIC_KEY"), None)
    return PodIdentity(
        uid=found.uid,
        jobset_uid=found.jobset_uid,
        restarts=found.restarts,
        key_secret=str(secrets[-1] or "") if secrets else "",
        public_key=parse_public_key(str(given or ""))[0],
    )


async def read_release_keys(client: Client, namespace: str, secret: str) -> tuple[str, ...]:
    """The public host keys of a release's Secret; empty if missing or not permitted. Raises Unreadable if invalid."""
    if not secret:
        return ()
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{quote(secret, safe='')}"
    try:
        body = await client.request("GET", path, action=f"read the host key of Secret {secret}")
    except (NotFound, NotAllowed):
        return ()  # an account that may run commands in the pod can read the key there
    try:
        data = msgspec.json.decode(body, type=_KeySecretSchema).data or {}
    except DECODING_ERRORS:
        raise Unreadable(f"The Secret {secret} cannot be read.") from None
    public = public_key_of(data.get("host_key", ""))
    return (public,) if public else ()


async def probe_keys(client: Client, namespace: str, pod: str, *, container: str = "", add: str = "") -> KeyProbe:
    """Run the key probe in a pod; it also installs the authorized_keys line `add`. Raises ProgramFailed."""
    stdin = f"key={shlex.quote(add)}\n{SSHD_PROBE_SCRIPT}".encode()
    code, output, complaint = await executing.run_and_collect(
        client, namespace, pod, ["sh", "-s"], container=container, stdin=stdin, max_bytes=MAX_PROBE_BYTES
    )
    answer = output.decode(errors="replace")
    if code or not answer.endswith("end yes\n"):
        words = complaint.decode(errors="replace").strip().splitlines()
        what = "take the key" if add else "be looked into"
        raise ProgramFailed(f"Pod {pod} could not {what}: {words[-1] if words else f'exit code {code}'}.", code=code)
    return parse_probe(pod, answer)


def parse_probe(pod: str, answer: str) -> KeyProbe:
    """Parse the output of the key probe. Raises Unreadable for user or folder names that ssh could misread."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in answer.split("\n"):
        name, _, value = line.partition(" ")
        found[name].append(value)
    user, folder = ((found[name] or [""])[0] for name in ("user", "folder"))
    if not _VALID_USER.fullmatch(user):
        why = f"Pod {pod} calls its user {user[:64]!r}: that is not a valid user name, so nothing is set up for it."
        raise Unreadable(why)
    # It is an absolute path that neither ssh's config nor an editor can misread
    if not (folder.startswith("/") and folder.isprintable() and len(folder) <= _MAX_PATH and "\\" not in folder):
        why = f"Pod {pod} calls its folder {folder[:64]!r}: that is not a valid path, so nothing is set up for it."
        raise Unreadable(why)
    return KeyProbe(
        user=user,
        working_folder=folder,
        authorized_keys=tuple(key for each in found["authorized"] if (key := _key_of_line(each))),
        served_keys=tuple(key for each in found["hostkey"] if (key := parse_public_key(each)[0])),
        file_keys=tuple(key for each in found["hostfile"] if (key := parse_public_key(each)[0])),
    )


def _key_of_line(line: str) -> str:
    """The public key in a line of authorized_keys, which may begin with options; empty if it has none."""
    words = line.split()
    for at in range(len(words) - 1):
        if key := parse_public_key(" ".join(words[at : at + 2]))[0]:
            return key
    return ""
