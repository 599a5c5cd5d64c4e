"""What a container is asked of its disks and mounts, run by a real shell over a pod's own tables."""

import os
import subprocess
from pathlib import Path

from console.attach.exec_many import FACT_QUESTIONS
from console.attach.files import scripts

MOUNTS = """\
overlay / overlay rw,relatime,lowerdir=/a 0 0
proc /proc proc rw,nosuid 0 0
cgroup /sys/fs/cgroup cgroup2 ro,nosuid 0 0
10.128.15.200:/share /nfs nfs4 rw,relatime,vers=4.1,hard,proto=tcp 0 0
10.128.15.210@tcp:/lustre /lustre lustre rw,checksum,flock,user_xattr 0 0
practice-a4-runs /gcs fuse.gcsfuse rw,nosuid,nodev,user_id=0 0 0
"""
DF = """\
Filesystem                 Size  Used Avail Use% Mounted on
overlay                     95G   40G   55G  43% /
shm                         64M     0   64M   0% /dev/shm
10.128.15.200:/share        10T  9.6T  409G  96% /nfs
10.128.15.210@tcp:/lustre   18T  2.0T   16T  12% /lustre
"""


def answer(name: str, folder: Path) -> str:
    """What the script prints where those are the container's tables."""
    (folder / "mounts").write_text(MOUNTS)
    (folder / "table").write_text(DF)
    (folder / "df").write_text(f'#!/bin/sh\n[ "$1" = -hP ] && cat {folder}/table\n')
    (folder / "df").chmod(0o755)
    script = next(each.script for each in FACT_QUESTIONS if each.name == name)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "A4_PROC": str(folder)}
    return subprocess.run(["sh", "-c", script], env=environment, check=True, capture_output=True, text=True).stdout


def test_nfs_and_lustre_stand_among_the_mounts(tmp_path: Path) -> None:
    lines = [line.split("  ")[:3] for line in answer("mounts", tmp_path).splitlines()]
    assert lines == [
        ["/", "overlay", "overlay"],
        ["/nfs", "nfs4", "10.128.15.200:/share"],
        ["/lustre", "lustre", "10.128.15.210@tcp:/lustre"],
        ["/gcs", "fuse.gcsfuse", "practice-a4-runs"],
    ]


def test_every_shared_disk_says_how_full_it_is(tmp_path: Path) -> None:
    said = answer("disks", tmp_path)
    assert [line.split()[-2:] for line in said.splitlines()[1:]] == [["43%", "/"], ["96%", "/nfs"], ["12%", "/lustre"]]


def test_a_mount_is_not_deleted_and_a_link_goes_alone(tmp_path: Path) -> None:
    tools, nfs = tmp_path / "tools", tmp_path / "nfs"
    for folder in (tools, nfs, tmp_path / "plain"):
        folder.mkdir()
    (tmp_path / "link").symlink_to("nfs")
    (tools / "stat").write_text("#!/bin/sh\ncase $3 in */nfs) echo 7;; *) echo 1;; esac\n")
    (tools / "stat").chmod(0o755)

    def delete(name: str) -> int:
        environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-c", scripts.DELETE_PATH, "sh", str(tmp_path / name)], env=environment).returncode

    assert [delete(name) for name in ("nfs", "link", "plain", "absent")] == [
        scripts.EXIT_OTHER_FILE_SYSTEM,
        0,
        0,
        scripts.EXIT_MISSING,
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["nfs", "tools"]
