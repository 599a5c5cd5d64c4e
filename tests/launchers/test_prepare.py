"""The first stage: libraries, environment, sshd, discovery, order, host file."""

from __future__ import annotations

import stat
import subprocess
from typing import TYPE_CHECKING

from tests.launchers.sandbox import RECORDING

if TYPE_CHECKING:
    from tests.launchers.sandbox import Sandbox

FIRST, SECOND = (f"anna-workload-0-{index}.anna.team.svc.cluster.local" for index in (0, 1))


def place(pod: Sandbox, index: int, where: str) -> None:
    (pod.root / "places" / f"anna-workload-0-{index}").write_text(f"{where}\n")


def test_index_0_prepares_everything(pod: Sandbox) -> None:
    place(pod, 0, "/block-b/sub-1/host-9")
    place(pod, 1, "/block-a/sub-1/host-2")
    code, lines = pod.run("prepare.sh")
    assert code == 0
    assert [line for line in lines if line.startswith("step ")] == [
        line
        for number, name in enumerate(("libraries", "gpus", "ssh", "discovery", "order", "hostfile"), 1)
        for line in (f"step {number} {name}: run", f"step {number} {name}: done in 0 s")
    ]
    assert [line for line in lines if line.startswith("pong")] == [f"pong from {FIRST}", f"pong from {SECOND}"]
    # Near machines side by side: the second pod stands before the first.
    assert pod.text("tmp/job-worker-rank-order.txt").splitlines() == [
        f"/block-a/sub-1/host-2 {SECOND}",
        f"/block-b/sub-1/host-9 {FIRST}",
    ]
    assert pod.text("etc/job-worker-services.txt").splitlines() == [f"{SECOND} slots=8", f"{FIRST} slots=8"]


def test_other_pods_leave_discovery_to_index_0(worker: Sandbox) -> None:
    code, lines = worker.run("prepare.sh")
    assert code == 0
    assert [line for line in lines if "skip" in line] == [
        f"step {number} {name}: skip: index 0 does this"
        for number, name in ((4, "discovery"), (5, "order"), (6, "hostfile"))
    ]
    assert worker.calls("ssh") == []
    assert len(worker.calls("sshd")) == 1


def test_sshd_listens_on_2222_with_the_keys_of_the_release(pod: Sandbox) -> None:
    pod.environment["SSH_PUBLIC_KEY"] = "ssh-ed25519 AAAA anna@laptop"
    assert pod.run("prepare.sh")[0] == 0
    # Whatever the image's own sshd_config says, if there is one.
    assert pod.calls("sshd") == [["-f", "/etc/ssh/a4_sshd_config"]]
    settings = pod.text("etc/ssh/a4_sshd_config").splitlines()
    for line in (
        "Port 2222",
        "HostKey /etc/ssh/a4_host_key",
        "AuthorizedKeysFile /root/.ssh/authorized_keys",
        "PasswordAuthentication no",
        "Subsystem sftp internal-sftp",
    ):
        assert line in settings
    assert pod.text("root/.ssh/authorized_keys").splitlines() == [
        "public-of /root/.ssh/id_pods",
        "ssh-ed25519 AAAA anna@laptop",
    ]
    assert pod.text("root/.ssh/known_hosts_a4") == "a4-pods public-of /etc/ssh/a4_host_key\n"
    config = pod.text("root/.ssh/config")
    assert config.startswith("Host anna-workload-*\n    Port 2222\n")
    assert "StrictHostKeyChecking yes" in config
    for name in ("root/.ssh/id_pods", "root/.ssh/authorized_keys", "etc/ssh/a4_host_key", "tmp/export_init_env.sh"):
        assert stat.S_IMODE((pod.root / name).stat().st_mode) == 0o600, name


def test_without_a_persons_key_only_the_pods_may_log_in(pod: Sandbox) -> None:
    assert pod.run("prepare.sh")[0] == 0
    assert pod.text("root/.ssh/authorized_keys").splitlines() == ["public-of /root/.ssh/id_pods"]


def test_discovery_tries_again(pod: Sandbox) -> None:
    (pod.root / "refuse" / "anna-workload-0-1").write_text("3\n")
    code, lines = pod.run("prepare.sh")
    assert code == 0
    assert f"pong from {SECOND}" in lines
    assert len([call for call in pod.calls("ssh") if call[-1] == "hostname"]) == 1 + 4


def test_discovery_gives_up_at_its_limit_and_says_who_is_missing(pod: Sandbox) -> None:
    pod.environment["A4_DISCOVERY_SECONDS"] = "1"
    (pod.root / "refuse" / "anna-workload-0-1").write_text("100000\n")
    code, lines = pod.run("prepare.sh")
    assert code == 1
    assert f"{SECOND} has not answered within 1 s" in lines
    assert lines[-1] == "step 4 discovery: failed with exit code 1"
    assert not (pod.root / "etc/job-worker-services.txt").exists()


def test_a_machine_without_a_place_comes_last(pod: Sandbox) -> None:
    place(pod, 1, "/block-a/sub-1/host-2")
    code, lines = pod.run("prepare.sh")
    assert code == 0
    assert f"{FIRST} does not tell where its machine is" in lines
    assert pod.text("etc/job-worker-services.txt").splitlines() == [f"{SECOND} slots=8", f"{FIRST} slots=8"]


def test_a_definite_answer_about_the_place_is_not_asked_for_again(pod: Sandbox) -> None:
    """The metadata server has no such attribute (22), or the image no curl (127): waiting changes nothing."""
    place(pod, 1, "/block-a/sub-1/host-2")
    for answer, asked in (("22", 1), ("127", 1), ("28", 2)):
        before = len(asked_for_place(pod))
        pod.environment["A4_TEST_PLACE"] = answer
        assert pod.run("prepare.sh")[0] == 0
        assert len(asked_for_place(pod)) - before == asked


def asked_for_place(pod: Sandbox) -> list[list[str]]:
    return [call for call in pod.calls("ssh") if "physical_host" in call[-1] and FIRST in call]


def test_missing_gpus_are_said(pod: Sandbox) -> None:
    pod.nodes = 1
    pod.environment["GPUS_PER_NODE"] = "16"
    _, lines = pod.run("prepare.sh")
    assert "8 GPUs, 16 asked for" in lines
    assert any("some GPUs of this pod are missing" in line for line in lines)


def test_libraries_that_ldconfig_does_not_take_are_still_found(pod: Sandbox) -> None:
    pod.install_gib("")
    pod.program(pod.root / "bin/ldconfig", "#!/bin/bash\nexit 1\n")
    pod.environment["NCCL_PLUGIN_PATH"] = "/usr/local/gib/lib64"
    code, lines = pod.run("prepare.sh")
    assert code == 0
    assert "ldconfig did not take /usr/local/gib/lib64: LD_LIBRARY_PATH has it" in lines
    assert 'LD_LIBRARY_PATH="/usr/local/gib/lib64"' in pod.text("tmp/export_init_env.sh")


def test_lspci_is_installed_where_gib_misses_it(pod: Sandbox) -> None:
    pod.install_gib("")
    pod.environment["NCCL_PLUGIN_PATH"] = "/usr/local/gib/lib64"
    for program in ("timeout", "apt-get"):
        pod.program(pod.root / "bin" / program, RECORDING.format(name=program, body="exit 100"))
    code, lines = pod.run("prepare.sh")
    assert code == 0, "no way to a package archive is no reason to fail"
    assert "pciutils could not be installed: gIB does without" in lines
    assert pod.calls("timeout") == [["60", "apt-get", "update", "-qq"]]


def test_small_pods_get_as_many_slots_as_gpus(pod: Sandbox) -> None:
    pod.nodes = 1
    pod.environment["GPUS_PER_NODE"] = "2"
    assert pod.run("prepare.sh")[0] == 0
    assert pod.text("etc/job-worker-services.txt").splitlines() == [f"{FIRST} slots=2"]


def test_ranks_find_the_library_and_the_settings_of_gib(pod: Sandbox) -> None:
    pod.install_gib("export NCCL_NET=gIB NCCL_SOCKET_IFNAME=theirs; unset NCCL_BUFFSIZE; : $NOT_SET_ANYWHERE\n")
    pod.environment |= {
        "NCCL_PLUGIN_PATH": "/usr/local/gib/lib64",
        "NCCL_INIT_SCRIPT": "/usr/local/gib/scripts/set_nccl_env.sh",
        "NCCL_SOCKET_IFNAME": "eth0,eth1",
        "NCCL_NVLS_ENABLE": "1",
        "TEXT": "two\nlines and a 'quote'",
    }
    assert pod.run("prepare.sh")[0] == 0
    assert ["/usr/local/gib/lib64"] in pod.calls("ldconfig")
    shown = subprocess.run(
        ["bash", "-c", f'source {pod.root}/tmp/export_init_env.sh && export -p && echo "$TEXT"'],
        env={"PATH": "/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 'NCCL_NET="gIB"' in shown
    assert 'NCCL_SOCKET_IFNAME="eth0,eth1"' in shown
    assert 'LD_LIBRARY_PATH="/usr/local/gib/lib64"' in shown
    assert "NCCL_NVLS_ENABLE" not in shown
    assert shown.endswith("\ntwo\nlines and a 'quote'\n")


def test_an_image_without_sshd_is_refused_in_words(pod: Sandbox) -> None:
    (pod.root / "bin" / "sshd").unlink()
    code, lines = pod.run("prepare.sh")
    assert code == 1
    assert lines[-2:] == [
        "this image has no sshd; use an image with openssh-server",
        "step 3 ssh: failed with exit code 1",
    ]


def test_a_recipe_without_mpi_does_without_sshd(pod: Sandbox) -> None:
    (pod.root / "bin" / "sshd").unlink()
    pod.environment["A4_SSH"] = "optional"
    code, lines = pod.run("prepare.sh")
    assert code == 0
    assert [line for line in lines if "skip" in line] == [
        f"step {number} {name}: skip: no sshd in this image, and the recipe needs none"
        for number, name in enumerate(("ssh", "discovery", "order", "hostfile"), 3)
    ]


def test_settings_of_nccl_that_a_person_chose_outlive_gibs(pod: Sandbox) -> None:
    pod.install_gib("export NCCL_IB_TC=1 NCCL_MIN_NCHANNELS=2\n")
    pod.environment |= {
        "NCCL_INIT_SCRIPT": "/usr/local/gib/scripts/set_nccl_env.sh",
        "NCCL_IB_TC": "52",
        "NCCL_MIN_NCHANNELS": "32",
        "A4_NCCL_OWN": "NCCL_IB_TC NCCL_CROSS_NIC",
    }
    assert pod.run("prepare.sh")[0] == 0
    source = f"source {pod.root}/tmp/export_init_env.sh && echo $NCCL_IB_TC $NCCL_MIN_NCHANNELS"
    shown = subprocess.run(["bash", "-c", source], env={"PATH": "/bin"}, capture_output=True, text=True, check=True)
    assert shown.stdout == "52 2\n"
