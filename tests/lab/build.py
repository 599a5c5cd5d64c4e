"""Builds the lab's binaries and manifests from the modules pinned in go.mod, into .tools/lab of the checkout.

Cold it takes about eight minutes on two cores. While the pins stay the same it returns at once, in another checkout of
this machine too: what was built last is left in the cache folder of the person.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
TOOLS = SOURCE.parents[1] / ".tools" / "lab"
KUBERNETES = "v1.36.4"
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "jobset": "sigs.k8s.io/jobset",
    "kueue": "sigs.k8s.io/kueue/cmd/kueue",
}
KWOK_STAGES = ("node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease",
               "pod/fast/pod-ready")  # fmt: skip


class LabError(Exception):
    """The lab cannot be built or started; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the built programs and the manifests they need are."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    def program(self, name: str) -> Path:
        return self.bin / name


def build(folder: Path = TOOLS) -> Tools:
    """Build whatever the pins ask for and is not there yet."""
    tools, pins = Tools(folder), _pins()
    if _is_built(tools, pins):
        return tools
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "a4-lab"
    if _is_built(Tools(cache), pins):
        sys.stderr.write(f"lab: taken from {cache}\n")
        _link_all(cache, folder)
        return tools
    go = find_go()
    tools.bin.mkdir(parents=True, exist_ok=True)
    for name, package in PROGRAMS.items():
        sys.stderr.write(f"lab: building {name}\n")
        _run(go, "build", "-trimpath", "-ldflags", _version_flags(), "-o", str(tools.program(name)), package)
    _write_manifests(go, tools)
    (folder / "pins").write_text(pins)
    _link_all(folder, cache)
    return tools


def _is_built(tools: Tools, pins: str) -> bool:
    stamp = tools.folder / "pins"
    return stamp.exists() and stamp.read_text() == pins and all(tools.program(name).exists() for name in PROGRAMS)


def _link_all(source: Path, target: Path) -> None:
    """Make the target the same as the source; the files are shared where both lie on one file system."""

    def link(file: str, place: str) -> None:
        try:
            os.link(file, place)
        except OSError:
            shutil.copy2(file, place)

    whole = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copytree(source, whole, copy_function=link)
    shutil.rmtree(target, ignore_errors=True)
    whole.rename(target)


def _pins() -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "build.py", "pod-end.yaml"):
        digest.update((SOURCE / name).read_bytes())
    return digest.hexdigest()


def find_go(path: str | None = None) -> str:
    """The go command, new enough for go.mod."""
    wanted = re.search(r"^go (\d+)\.(\d+)", (SOURCE / "go.mod").read_text(), re.MULTILINE)
    assert wanted is not None, "tests/lab/go.mod names no go version"
    need = f"{wanted[1]}.{wanted[2]}"
    go = shutil.which("go", path=path or f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if go is None:
        raise LabError(
            f"The lab is built from source and needs Go {need} or newer; no `go` was found (https://go.dev/dl)."
        )
    found = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=True, env=_environment()
    ).stdout
    version = re.search(r"go(\d+)\.(\d+)", found)
    if version is None or (int(version[1]), int(version[2])) < (int(wanted[1]), int(wanted[2])):
        raise LabError(f"The lab needs Go {need} or newer; {go} is {found.strip()} (https://go.dev/dl).")
    return go


def _version_flags() -> str:
    """Linker flags that stamp the version: unstamped, Kueue cannot parse what the API server says and exits."""
    major, minor, _ = KUBERNETES.lstrip("v").split(".")
    stamps = {
        "gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean",
        "gitCommit": "0" * 40, "buildDate": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    packages = ("k8s.io/client-go/pkg/version", "k8s.io/component-base/version")
    return " ".join(
        ["-s -w", *(f"-X {package}.{key}={value}" for package in packages for key, value in stamps.items())]
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _run(*command: str) -> str:
    """Run one command in the module's folder and give what it printed."""
    done = subprocess.run(command, cwd=SOURCE, env=_environment(), capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"`{' '.join(command[:2])} … {command[-1]}` failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _write_manifests(go: str, tools: Tools) -> None:
    """Render what the modules ship, so that starting a lab needs neither Go nor its module cache."""
    tools.manifests.mkdir(parents=True, exist_ok=True)
    folders = {name: Path(json.loads(_run(go, "list", "-m", "-json", f"sigs.k8s.io/{name}"))["Dir"])
               for name in ("kueue", "jobset", "kwok")}  # fmt: skip
    for name in ("kueue", "jobset"):
        text = _run(str(tools.program("kubectl")), "kustomize", str(folders[name] / "config" / "default"))
        (tools.manifests / f"{name}.yaml").write_text(text)
    crds = sorted((folders["kwok"] / "kustomize" / "crd" / "bases").glob("*.yaml"))
    (tools.manifests / "kwok.yaml").write_text("\n---\n".join(file.read_text() for file in crds))
    stages = [folders["kwok"] / "kustomize" / "stage" / f"{name}.yaml" for name in KWOK_STAGES]
    stages.append(SOURCE / "pod-end.yaml")
    (tools.manifests / "stages.yaml").write_text("\n---\n".join(file.read_text() for file in stages))


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build().folder}\n")
    except LabError as error:
        sys.exit(str(error))
