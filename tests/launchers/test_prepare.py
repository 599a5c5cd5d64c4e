"""The first stage: libraries, environment, sshd, discovery, order, host file."""

from __future__ import annotations

import stat
import subprocess

import pytest

from tests.launchers.sandbox import RECORDING, Sandbox

FIRST, SECOND = (f"anna-workload-0-{index}.anna.team.svc.cluster.local" for index in (0, 1))


def test_index_0_prepares_everything(pod: Sandbox) -> None:
    lines = pod.run("prepare.sh")
    assert [line for line in lines if line.startswith("step ")] == [
        line
        for number, name in enumerate(("libraries", "gpus", "ssh", "discovery", "order", "hostfile"), 1)
        for line in (f"step {number} {name}: run", f"step {number} {name}: done in 0 s")
    ]
    assert [line for line in lines if line.startswith("pong")] == [f"pong from {FIRST}", f"pong from {SECOND}"]
    assert pod.text("etc/job-worker-services.txt").splitlines() == [f"{FIRST} slots=8", f"{SECOND} slots=8"]


def test_other_pods_begin_when_index_0_has_found_them(worker: Sandbox) -> None:
    with worker.start("prepare.sh") as process:
        assert process.stdout is not None
        lines = [next(line for line in process.stdout if line == "waiting for index 0\n")]
        assert process.poll() is None
        (worker.root / "tmp/a4-found").touch()
        lines = [line.rstrip() for line in process.stdout]
        assert process.wait(timeout=20) == 0
    assert lines[0] == "found by index 0"
    assert [line for line in lines if "skip" in line] == [
        f"step {number} {name}: skip: index 0 does this" for number, name in ((5, "order"), (6, "hostfile"))
    ]
    assert worker.calls("ssh") == []
    assert len(worker.calls("sshd")) == 1


def test_sshd_listens_on_2222_with_the_keys_of_the_release(pod: Sandbox) -> None:
    pod.run("prepare.sh", SSH_PUBLIC_KEY="ssh-ed25519 AAAA anna@laptop")
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
    pod.run("prepare.sh")
    assert pod.text("root/.ssh/authorized_keys").splitlines() == ["public-of /root/.ssh/id_pods"]


def test_discovery_tries_again(pod: Sandbox) -> None:
    (pod.root / "refuse" / "anna-workload-0-1").write_text("3\n")
    lines = pod.run("prepare.sh")
    assert f"pong from {SECOND}" in lines
    assert len([call for call in pod.calls("ssh") if call[-1] == "touch /tmp/a4-found"]) == 1 + 4


def test_discovery_gives_up_at_its_limit_and_says_who_is_missing(pod: Sandbox) -> None:
    pod.environment["A4_DISCOVERY_SECONDS"] = "1"
    (pod.root / "refuse" / "anna-workload-0-1").write_text("100000\n")
    lines = pod.run("prepare.sh", code=1)
    assert f"{SECOND} has not answered within 1 s: look why its pod is not there" in lines
    assert lines[-1] == "step 4 discovery: failed with exit code 1"
    assert not (pod.root / "etc/job-worker-services.txt").exists()


@pytest.mark.slow(reason="runs a launcher as a process")
def test_another_pod_gives_up_at_the_limit_when_index_0_does_not_come(worker: Sandbox) -> None:
    lines = worker.run("prepare.sh", code=1, A4_DISCOVERY_SECONDS="1")
    assert "index 0 has not been heard of within 1 s: look why its pod is not there" in lines
    assert lines[-1] == "step 4 discovery: failed with exit code 1"


@pytest.mark.parametrize(
    ("placed_by", "how", "order"),
    [
        (
            "jobset-anna-1",
            "preferred block",
            "order: by index, as Kueue has placed the pods by topology (preferred block)",
        ),
        ("jobset-anna-1", "true", "order: by index, as Kueue has placed the pods by topology (unconstrained)"),
        ("jobset-anna-1", "", "order: not known, as Kueue has not placed these pods by topology; they stand by index"),
        (
            "",
            "preferred block",
            "order: not known, as Kueue has not placed these pods by topology; they stand by index",
        ),
    ],
)
def test_the_order_is_that_of_the_topology_only_where_kueue_made_it(
    pod: Sandbox, placed_by: str, how: str, order: str
) -> None:
    pod.environment |= {"A4_PLACED_BY": placed_by, "A4_PLACED_HOW": how}
    lines = pod.run("prepare.sh")
    assert [line for line in lines if line.startswith("order")] == [order]
    assert not [call for call in pod.calls("ssh") if "metadata" in call[-1]]


SHELL = """
echo "rc of the image"
[ -z "$PS1" ] && return
"""


def test_every_shell_finds_the_environment_of_the_job(pod: Sandbox) -> None:
    """Also where the image has a .bashrc that ends early, and once however often the pod was prepared."""
    (pod.root / "root/.bashrc").write_text(SHELL)
    (pod.root / "root/.bash_profile").write_text("echo profile\n")
    pod.install_gib("export NCCL_NET=gIB\n")
    secret = "hf_secret"
    pod.environment |= {
        "NCCL_INIT_SCRIPT": "/usr/local/gib/scripts/set_nccl_env.sh", "HF_TOKEN": secret, "TEXT": "two\nlines",
    }  # fmt: skip
    for _ in range(2):
        pod.run("prepare.sh")
    assert pod.text("root/.bashrc").endswith(SHELL)
    assert pod.text("root/.bashrc").count("A4_ENVIRONMENT") == 1
    assert pod.text("root/.bash_profile").count("A4_ENVIRONMENT") == 1
    assert not (pod.root / "root/.profile").exists(), "bash reads it no more where there is a .bash_profile"
    for options in (["-c", f"source {pod.root}/root/.bashrc"], ["-c", f"source {pod.root}/root/.bash_profile"]):
        shown = subprocess.run(
            ["bash", options[0], f'{options[1]}; echo "$NCCL_NET $HF_TOKEN $TEXT"'],
            env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert shown.endswith(f"gIB {secret} two\nlines\n")
    # sshd reads NAME=VALUE lines and no more.
    given = pod.text("root/.ssh/environment").splitlines()
    assert {f"HF_TOKEN={secret}", "NCCL_NET=gIB", "MASTER_PORT=6002"} <= set(given)
    assert not [line for line in given if line.startswith(("TEXT=", "lines", "PWD=", "HOME=", "_="))]
    assert "PermitUserEnvironment yes" in pod.text("etc/ssh/a4_sshd_config").splitlines()
    for file in pod.root.rglob("*"):
        if file.is_file() and file.parent.name != "calls" and secret.encode() in file.read_bytes():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


@pytest.mark.parametrize(
    ("torch", "older"),
    [("2.8.1", "TRACE_BUFFER_SIZE DEBUG_INFO_TEMP_FILE"), ("", "TRACE_BUFFER_SIZE DEBUG_INFO_TEMP_FILE"),
     ("2.9.0a0+145a3a.nv25.10", "DEBUG_INFO_TEMP_FILE"), ("2.11.0", "")],
)  # fmt: skip
def test_the_flight_recorder_is_set_by_the_names_that_pytorch_has(pod: Sandbox, torch: str, older: str) -> None:
    pod.nodes = 1
    names = ("FR_BUFFER_SIZE", "NCCL_TRACE_BUFFER_SIZE", "FR_DUMP_TEMP_FILE", "NCCL_DEBUG_INFO_TEMP_FILE")
    pod.environment |= {f"TORCH_{name}": "2000" for name in names}
    pod.program(pod.root / "bin/python3", f"#!/bin/bash\n[[ -n '{torch}' ]] && echo '{torch}'\n")
    pod.run("prepare.sh")
    given = set(pod.text("root/.ssh/environment").splitlines())
    left = {"TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE", *(f"TORCH_NCCL_{name}" for name in older.split())}
    assert {line.partition("=")[0] for line in given if line.startswith("TORCH_")} == left


def test_missing_gpus_are_reported(pod: Sandbox) -> None:
    pod.nodes = 1
    lines = pod.run("prepare.sh", GPUS_PER_NODE="16")
    assert "8 GPUs, 16 asked for" in lines
    assert any("some GPUs of this pod are missing" in line for line in lines)


def test_libraries_that_ldconfig_does_not_take_are_still_found(pod: Sandbox) -> None:
    pod.install_gib("")
    pod.program(pod.root / "bin/ldconfig", "#!/bin/bash\nexit 1\n")
    lines = pod.run("prepare.sh", NCCL_PLUGIN_PATH="/usr/local/gib/lib64")
    assert "ldconfig did not take /usr/local/gib/lib64: LD_LIBRARY_PATH has it" in lines
    assert 'LD_LIBRARY_PATH="/usr/local/gib/lib64"' in pod.text("tmp/export_init_env.sh")


def test_lspci_is_installed_where_gib_misses_it(pod: Sandbox) -> None:
    pod.install_gib("")
    pod.environment["NCCL_PLUGIN_PATH"] = "/usr/local/gib/lib64"
    for program in ("timeout", "apt-get"):
        pod.program(pod.root / "bin" / program, RECORDING.format(name=program, body="exit 100"))
    lines = pod.run("prepare.sh")  # no way to a package archive is no reason to fail
    assert "pciutils could not be installed: gIB does without" in lines
    assert pod.calls("timeout") == [["60", "apt-get", "update", "-qq"]]


def test_small_pods_get_as_many_slots_as_gpus(pod: Sandbox) -> None:
    pod.nodes = 1
    pod.run("prepare.sh", GPUS_PER_NODE="2")
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
    pod.run("prepare.sh")
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
    lines = pod.run("prepare.sh", code=1)
    assert lines[-2:] == [
        "this image has no sshd; use an image with openssh-server",
        "step 3 ssh: failed with exit code 1",
    ]


def test_a_recipe_without_mpi_does_without_sshd(pod: Sandbox) -> None:
    (pod.root / "bin" / "sshd").unlink()
    lines = pod.run("prepare.sh", A4_SSH="optional")
    assert [line for line in lines if "skip" in line] == [
        f"step {number} {name}: skip: no sshd in this image, and the recipe needs none"
        for number, name in enumerate(("ssh", "discovery", "order", "hostfile"), 3)
    ]


def archive(pod: Sandbox, *, works: bool) -> None:
    """A package archive that the pod reaches, or not; the image has no sshd."""
    sshd = pod.root / "bin/sshd"
    sshd.rename(pod.root / "sshd")
    for name in ("timeout", "apt-get"):
        body = f'if [[ "$*" == *install* ]]; then mv "{pod.root}/sshd" "{sshd}"; fi' if works else "exit 100"
        pod.program(
            pod.root / "bin" / name, RECORDING.format(name=name, body=body if name == "apt-get" else 'shift; "$@"')
        )


def test_sshd_is_installed_where_the_image_has_none(pod: Sandbox) -> None:
    """For people alone where the recipe needs none: other pods may lack it, and none may wait for them."""
    archive(pod, works=True)
    lines = pod.run("prepare.sh", A4_SSH="optional")
    assert "no sshd in this image: openssh-server is installed" in lines
    assert ["install", "-qq", "-y", "openssh-server"] in pod.calls("apt-get")
    assert pod.steps(lines)[-4:] == ["ssh done", "discovery skip", "order skip", "hostfile skip"]
    assert len(pod.calls("sshd")) == 1
    assert not (pod.root / "tmp/a4-sshd").exists(), "the pods would wait for each other's end"


def test_recipes_that_need_sshd_go_on_with_the_one_that_was_installed(pod: Sandbox) -> None:
    archive(pod, works=True)
    pod.nodes = 1
    lines = pod.run("prepare.sh")
    assert pod.steps(lines)[-4:] == ["ssh done", "discovery done", "order done", "hostfile done"]


@pytest.mark.parametrize(("need", "code"), [("optional", 0), ("required", 1)])
def test_without_an_archive_what_is_missing_is_named(pod: Sandbox, need: str, code: int) -> None:
    archive(pod, works=False)
    pod.environment["A4_SSH"] = need
    lines = pod.run("prepare.sh", code=code)
    assert "openssh-server could not be installed: no shell by ssh and no editor reaches this pod" in lines
    if code:
        assert "this image has no sshd; use an image with openssh-server" in lines


def test_settings_of_nccl_that_a_person_chose_outlive_gibs(pod: Sandbox) -> None:
    pod.install_gib("export NCCL_IB_TC=1 NCCL_MIN_NCHANNELS=2\n")
    pod.environment |= {
        "NCCL_INIT_SCRIPT": "/usr/local/gib/scripts/set_nccl_env.sh",
        "NCCL_IB_TC": "52",
        "NCCL_MIN_NCHANNELS": "32",
        "A4_NCCL_OWN": "NCCL_IB_TC NCCL_CROSS_NIC",
    }
    pod.run("prepare.sh")
    source = f"source {pod.root}/tmp/export_init_env.sh && echo $NCCL_IB_TC $NCCL_MIN_NCHANNELS"
    shown = subprocess.run(["bash", "-c", source], env={"PATH": "/bin"}, capture_output=True, text=True, check=True)
    assert shown.stdout == "52 2\n"
