"""Command lines of the control plane's programs: the flags that go together on one host, and why the odd ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

LEFT_ALONE = {"a4-lab/kubelet": "stopped"}
"""The annotation of a node whose state kwok writes no more."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Every port one lab listens on."""

    etcd: int
    etcd_peer: int
    api: int
    controller_manager: int
    scheduler: int
    kubelet: int
    kueue_hook: int
    kueue_health: int
    visibility: int
    jobset_hook: int
    jobset_health: int
    ssh: int
    COUNT: ClassVar[int] = 12


def etcd(ports: Ports, folder: Path) -> list[str]:
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        "--name=lab", f"--data-dir={folder}/etcd",
        f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=lab={peer}",
        "--unsafe-no-fsync",  # nothing here outlives the lab
        "--quota-backend-bytes=8589934592", "--max-request-bytes=8388608", "--log-level=warn",
    ]  # fmt: skip


def api_server(ports: Ports, pki: Path) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        "--bind-address=127.0.0.1", f"--secure-port={ports.api}", "--endpoint-reconciler-type=none",
        "--allow-privileged=true", "--authorization-mode=Node,RBAC", f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
        f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--proxy-client-cert-file={pki}/front.crt", f"--proxy-client-key-file={pki}/front.key",
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=front-proxy-client",  # one authority signs both: it must name the proxy
        "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--kubelet-preferred-address-types=ExternalDNS",  # fake nodes have 10.x addresses; this one is localhost
        "--enable-admission-plugins=ExtendedResourceToleration",  # as on GKE: GPU pods tolerate the GPU taint
    ]  # fmt: skip


def controller_manager(ports: Ports, pki: Path) -> list[str]:
    return [
        f"--secure-port={ports.controller_manager}", "--bind-address=127.0.0.1", "--leader-elect=false",
        f"--root-ca-file={pki}/ca.crt", f"--service-account-private-key-file={pki}/sa.key",
        "--use-service-account-credentials", "--kube-api-qps=500", "--kube-api-burst=1000",
        "--node-monitor-period=25s", "--node-monitor-grace-period=200s",
    ]  # fmt: skip


def scheduler(ports: Ports) -> list[str]:
    return [
        f"--secure-port={ports.scheduler}", "--bind-address=127.0.0.1", "--leader-elect=false",
        "--kube-api-qps=500", "--kube-api-burst=1000",
    ]  # fmt: skip


def kwok(ports: Ports, pki: Path, manifests: Path) -> list[str]:
    (stopped,) = (f"{key}={value}" for key, value in LEFT_ALONE.items())
    kinds = "Logs,ClusterLogs,Exec,ClusterExec,Attach,ClusterAttach,PortForward,ClusterPortForward"
    return [
        f"--config={manifests}/stages.yaml", f"--enable-crds={kinds}", "--manage-all-nodes=true",
        f"--disregard-status-with-annotation-selector={stopped}",
        "--node-ip=127.0.0.1", "--node-name=localhost", f"--node-port={ports.kubelet}",
        f"--server-address=127.0.0.1:{ports.kubelet}", "--node-lease-duration-seconds=200",
        f"--tls-cert-file={pki}/kwok.crt", f"--tls-private-key-file={pki}/kwok.key",
    ]  # fmt: skip
