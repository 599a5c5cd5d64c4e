"""The quick NCCL test runs the program that the pod has, in gIB's environment, with the words that nccl-tests takes."""

import subprocess
from pathlib import Path

import pytest

from console.attach.exec_many import NCCL_QUICK_SCRIPT, QuickNcclTest
from console.errors import BadInput

PERF = '#!/bin/sh\necho "NCCL_NET=$NCCL_NET LIB=$LD_LIBRARY_PATH $*"\n'


def run(folder: Path, test: QuickNcclTest, **env: str) -> tuple[int, str]:
    """In a pod whose root is that folder."""
    argv = [word.replace(NCCL_QUICK_SCRIPT, _moved(folder)) for word in test.argv]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={"PATH": f"{folder}/bin:/usr/bin:/bin", **env}
    )
    return done.returncode, done.stdout.strip()


def _moved(folder: Path) -> str:
    moved = NCCL_QUICK_SCRIPT.replace("/tmp/export", "@/tmp/export").replace("/third_party", "@/third_party")
    return moved.replace("/usr/local/gib", "@/gib").replace("@", str(folder))


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_it_takes_the_environment_that_the_launcher_left(tmp_path: Path) -> None:
    program(tmp_path / "third_party/nccl-tests/build/all_reduce_perf", PERF)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/export_init_env.sh").write_text("declare -x NCCL_NET=gIB\ndeclare -x LD_LIBRARY_PATH=/gib\n")
    code, said = run(tmp_path, QuickNcclTest(), GPUS_PER_NODE="8")
    assert (code, said) == (0, "NCCL_NET=gIB LIB=/gib -b 1M -e 1G -f 2 -g 8")


def test_one_size_is_one_row_and_some_gpus_will_do(tmp_path: Path) -> None:
    program(tmp_path / "third_party/nccl-tests/build/all_reduce_perf", PERF)
    assert run(tmp_path, QuickNcclTest("1M", "1M", 2), GPUS_PER_NODE="8")[1].endswith("-b 1M -e 1M -i 1 -g 2")


def test_a_pod_that_no_launcher_prepared_gets_the_environment_of_gib(tmp_path: Path) -> None:
    program(tmp_path / "bin/all_reduce_perf", PERF)
    program(tmp_path / "bin/nvidia-smi", '#!/bin/sh\necho "GPU 0: B200"\necho "GPU 1: B200"\n')
    program(tmp_path / "gib/scripts/set_nccl_env.sh", "export NCCL_NET=gIB\n")
    code, said = run(tmp_path, QuickNcclTest())
    assert (code, said) == (0, f"NCCL_NET=gIB LIB={tmp_path}/gib/lib64 -b 1M -e 1G -f 2 -g 2")


def test_a_pod_without_the_program_says_so_by_its_code(tmp_path: Path) -> None:
    assert run(tmp_path, QuickNcclTest())[0] == 44


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (QuickNcclTest("0", "1M"), "0 is not a message size"),
        (QuickNcclTest("1M", "1T"), "1T is not a message size"),
        (QuickNcclTest("1; rm -rf /", "1M"), "is not a message size"),
        (QuickNcclTest("2M", "1M"), "The first size 2M is above the last, 1M"),
        (QuickNcclTest(gpus=-1), "-1 GPUs cannot be"),
    ],
)
def test_sizes_that_cannot_be_are_refused(test: QuickNcclTest, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        test.require_valid()
