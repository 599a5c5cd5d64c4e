"""The image registries of the practice world, from which nodes pull and to which builds push."""

from __future__ import annotations

import re

GIB = "us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib-diagnostic"
_NEMO = "us-central1-docker.pkg.dev/deeplearning-images/reproducibility/pytorch-gpu-nemo-nccl"
_OWN = "us-central1-docker.pkg.dev/practice"
PUBLIC: dict[str, dict[str, str]] = {
    "nvcr.io/nvidia/pytorch": {"25.06-py3": "12.9.1.010", "24.07-py3": "12.5.1.007"},
    "dsw-registry.cn-wulanchabu.cr.aliyuncs.com/pai/pai-megatron-patch": {"25.04": "12.8.1.012"},
    "modelscope-registry.us-west-1.cr.aliyuncs.com/modelscope-repo/modelscope": {},
    GIB: dict.fromkeys(("v1.0.5", "v1.0.6", "v1.1.0", "latest"), "12.8.0"),
    _NEMO: {"nemo25.04-gib1.0.6-A4": "12.8.1"},
}
"""Public images, by tag their CUDA version, "" if unknown; an image without listed tags has every tag that names a CUDA
version."""
STOCK = (
    (f"{_OWN}/a4/testbed:nemo25.04-gib1.0.6-A4", 21_400_000_000, 12),
    (f"{_OWN}/a4/unified-testbed-pytorch:25.06-py3", 14_800_000_000, 3),
    ("us-docker.pkg.dev/practice/mirror/pytorch:25.06-py3", 13_900_000_000, 30),
    (f"{_OWN}/images/pytorch-gpu-nemo-nccl:nemo25.04-gib1.0.6-A4", 21_300_000_000, 45),
)
"""(image, bytes, age in days) of the images in the project's own repositories from the start."""
_BUILT = "12.9.1.010"
_CUDA_IN_TAG = re.compile(r"cuda(\d+\.\d+\.\d+)")
BARE = "nvcr.io/nvidia/pytorch"  # an image without an SSH server
_HUB = "docker.io"
_ON_HUB = frozenset({"alpine", "bash", "busybox", "debian", "nginx", "python", "ubuntu"})
"""Images of Docker Hub that exist with every tag."""
_VERSION = re.compile(r"latest|v?\d[\w.-]*")
_SYSTEM = ("gke.gcr.io", "registry.k8s.io")  # registries of what GKE itself runs: all is there
_HOST = re.compile(r"(?:[a-z0-9-]+\.)*(?:gcr\.io|pkg\.dev|nvcr\.io|quay\.io|ghcr\.io|docker\.io|registry\.k8s\.io)")
"""Registries that answer; those of `PUBLIC` do so too."""
_REFUSED = (
    'rpc error: code = {code} desc = failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
)
_NO_HOST = 'failed to do request: Head "{address}": dial tcp: lookup {host} on 169.254.169.254:53: no such host'
_NOT_ON_HUB = (
    "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: "
    "authorization failed"
)


class Registries:
    """The images that nodes of the practice cluster can pull."""

    def __init__(self) -> None:
        self.hidden: set[str] = set()  # names that nobody may see who is not logged in there
        self.lost: set[str] = set()  # names of public images that are gone
        self.old = ""  # version of CUDA that every image has, instead of its own
        self._held: dict[str, set[str]] = {}
        for image, _, _ in STOCK:
            self.add_image(image)

    def add_image(self, image: str, digest: str = "") -> None:
        """Add an image by its tag and by its digest."""
        name, mark = split_reference(image)
        self._held.setdefault(name, set()).update({mark, digest} - {""})

    def cuda_version(self, image: str) -> str | None:
        """The CUDA version of an image, "" if it has none; None if there is no such image."""
        found = self._find_image(*split_reference(image))
        return self.old if found and self.old else found

    def _find_image(self, name: str, mark: str) -> str | None:
        if mark in self._held.get(name, ()):
            return _BUILT
        host, _, path = qualified_name(name).partition("/")
        if host in _SYSTEM:
            return ""
        if host == _HUB and path.removeprefix("library/") in _ON_HUB:
            return "" if mark.startswith("sha256:") or _VERSION.fullmatch(mark) else None
        tags = PUBLIC.get(name)
        if tags is None or name in self.lost:
            return None
        named = _CUDA_IN_TAG.search(mark)
        return tags.get(mark) if tags or not named else named[1]

    def pull_error(self, image: str) -> str:
        """Containerd's error for an image that a node cannot pull; "" if it can."""
        name, mark = split_reference(image)
        full = qualified_name(name)
        host, _, path = full.partition("/")
        whole = f"{full}{'@' if mark.startswith('sha256:') else ':'}{mark}"
        if not (_HOST.fullmatch(host) or any(each.startswith(f"{host}/") for each in PUBLIC)):
            address = f"https://{host}/v2/{path}/manifests/{mark}"
            return _REFUSED.format(code="Unknown", image=whole) + _NO_HOST.format(address=address, host=host)
        if name in self.hidden:
            message = (
                f"failed to authorize: failed to fetch oauth token: unexpected status from GET request to "
                f"https://{host}/v2/token: 403 Forbidden"
            )
            return _REFUSED.format(code="PermissionDenied", image=whole) + message
        if self._find_image(name, mark) is not None:
            return ""
        if host == _HUB and path.removeprefix("library/") not in _ON_HUB:
            return _REFUSED.format(code="Unknown", image=whole) + _NOT_ON_HUB
        return _REFUSED.format(code="NotFound", image=whole) + f"{whole}: not found"

    @staticmethod
    def has_sshd(image: str) -> bool:
        return split_reference(image)[0] != BARE


def qualified_name(name: str) -> str:
    """The name of an image with its registry: "busybox" is "docker.io/library/busybox"."""
    first, cut, _ = name.partition("/")
    if cut and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"{_HUB}/{name}" if cut else f"{_HUB}/library/{name}"


def split_reference(image: str) -> tuple[str, str]:
    """(name, tag or digest) of an image; the tag is `latest` if neither is given."""
    name, cut, digest = image.partition("@")
    if cut:
        return name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name, digest
    base, cut, tag = image.rpartition(":")
    return (base, tag) if cut and "/" not in tag else (image, "latest")
