"""The commands about images and storage, as they are typed, on practice Google."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from console.connection_settings import Settings
from console.errors import BadInput, NotAllowed, NotFound
from console.session import Session
from practice.cluster import PracticeCluster
from practice.google.bucket_store import BUCKET, BucketStore
from practice.objects.resources import PODS
from screens.cli.command_line import parse_command_line
from tests.hostile.payloads import PAYLOADS, RAW
from tests.screens.cli.commands import perform

Typed = Callable[..., Awaitable[int]]


@asynccontextmanager
async def typed(scene: str = "empty", speed: float = 200.0) -> AsyncIterator[tuple[Typed, PracticeCluster]]:
    async with PracticeCluster(speed=speed, scene=scene) as cluster:  # type: ignore[arg-type]

        async def run(*argv: str) -> int:
            return await perform(parse_command_line([*argv, "--kubeconfig", str(cluster.kubeconfig)]))

        yield run, cluster


def json_output(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


async def test_from_the_list_to_a_built_image_and_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.google.images.BUILD_POLL_SECONDS", 0.02)
    async with typed() as (run, _):
        assert await run("images", "--json") == 0
        before = json_output(capsys)
        assert {each["name"] for each in before["contexts"]} == {"pai-megatron-patch", "testbed", "unified-testbed"}
        assert await run("build", "testbed", "--set", "_IMAGE_TAG=cli", "--timeout", "90m", "--machine",
                         "e2-highcpu-8", "--wait", "--json") == 0  # fmt: skip
        built = json_output(capsys)
        assert (built["status"], built["machine"], built["time_out"]) == ("SUCCESS", "e2-highcpu-8", 5400.0)
        assert await run("builds", built["id"]) == 0
        assert "testbed:cli" in capsys.readouterr().out
        assert await run("build-log", built["id"], "--json") == 0
        lines = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
        assert lines[-1] == "DONE"
        assert await run("images", "--json") == 0
        assert ["cli"] in [each["tags"] for each in json_output(capsys)["items"]]


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_one_is_cancelled_another_runs_in_a_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.google.images.BUILD_POLL_SECONDS", 0.02)
    async with typed() as (run, cluster):
        cluster.clock.speed = 1.0
        assert await run("build", "testbed", "--set", "_IMAGE_TAG=gone", "--json") == 0
        number = json_output(capsys)["id"]
        assert await run("build-cancel", number, "--yes", "--json") == 0
        assert json_output(capsys)["status"] == "CANCELLED"
        cluster.clock.speed = 200.0
        assert await run("build", "testbed", "--set", "_IMAGE_TAG=kept", "--wait", "--json") == 0
        (image,) = json_output(capsys)["images"]
        assert await run("launch", "ddp-smoke", "--name", "ddp", "--set", f"image={image}", "--wait") == 0
        mains = [pod["spec"]["containers"][0]["image"] for pod in cluster.storage.list(PODS)]
        assert set(mains) == {image}


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_a_build_that_fails_has_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:12\nRUN exit 2\n")
    async with typed() as (run, _):
        assert await run("build", "--file", str(tmp_path), "--wait") == 1
        told = capsys.readouterr()
        assert "ended as FAILURE" in told.err
        assert "non-zero code: 2" in told.err


async def test_nothing_is_sent_by_a_dry_run_or_in_read_only_mode(capsys: pytest.CaptureFixture[str]) -> None:
    async with typed() as (run, cluster):
        assert await run("build", "testbed", "--dry-run") == 0
        request = json_output(capsys)
        assert request["build"]["timeout"] == "7200s"
        assert request["image"].endswith("/testbed:nemo25.04-gib1.0.6-A4")
        with pytest.raises(NotAllowed, match="read-only"):
            await run("build", "testbed", "--read-only")
        assert cluster.google is not None
        assert not [name for name, _ in cluster.google.world.calls if "Create" in name]


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_what_is_typed_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    async with typed(speed=1.0) as (run, _):
        for argv, words in (
            (("build",), "What is to be built"),
            (("build", "nothing"), "There is no build context nothing"),
            (("build", "testbed", "--set", "x"), "not a substitution"),
            (("build", "testbed", "--timeout", "soon"), "is not a valid time"),
            (
                ("ls", "here"),
                "here is neither a folder of a pod nor of a bucket. Write JOB:POD:PATH, pod/NAME:PATH, gs://",
            ),
            (("lustre", "nobody"), "There are 0 instances named nobody"),
            (("lustre", "scratch"), "cannot be mounted, it is CREATING"),
            (("filestore", "zonal-old"), "The reserved range is used up"),
            (("store-logs", "j", "gs://practice-a4-runs"), "is a whole bucket"),
        ):
            with pytest.raises(BadInput, match=words):
                await run(*argv)
        await run("build", "testbed")
        capsys.readouterr()
        await run("builds", "--json")
        number = json_output(capsys)["items"][0]["id"]
        with pytest.raises(BadInput, match="There is no terminal to confirm it"):
            await run("build-cancel", number)


async def test_buckets_their_folders_and_what_is_brought(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with typed() as (run, _):
        assert await run("buckets", "--json") == 0
        found = json_output(capsys)
        assert (found["region"], found["items"][0]["match"]) == ("us-central1", "same region")
        assert await run("ls", f"gs://{BUCKET}", "--json") == 0
        assert [each["name"] for each in json_output(capsys)["items"]] == ["datasets/", "logs/"]
        assert await run("ls", f"gs://{BUCKET}") == 0
        assert capsys.readouterr().out == "datasets/\nlogs/\n", "no room for what folders do not have"
        assert await run("checkpoints", f"gs://{BUCKET}/logs", "--json") == 1
        found = json_output(capsys)
        states = [(each["step"], each["state"]) for each in found["items"]]
        assert states == [(500, "complete"), (1000, "complete"), (1500, "incomplete")]
        cut = "mp_rank_00_001/model_optim_rng.pt is cut off: the end of a file of torch.save is missing"
        assert found["items"][2]["problems"] == [cut]
        assert (found["last_complete"], found["notes"], found["gpu_hours_at_risk"]) == (1000, [], None)
        assert await run("get", f"gs://{BUCKET}/datasets", str(tmp_path)) == 0
        assert "12 files" in capsys.readouterr().out
        assert len(list((tmp_path / "datasets").iterdir())) == 12
        assert await run("lustre", "lustre", "--json") == 0
        assert json_output(capsys)["storage"]["lustre"]["size"] == "18000Gi"
        assert await run("filestore", "--json") == 0
        assert [each["state"] for each in json_output(capsys)["items"]] == ["READY", "ERROR"]


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_logs_of_a_job_go_into_a_bucket(capsys: pytest.CaptureFixture[str]) -> None:
    async with typed("full") as (run, cluster):
        session = await Session.open(Settings(kubeconfig=cluster.kubeconfig, practice=True), kinds=("jobsets", "pods"))
        try:
            fleet = await session.wait_until_listed()
            namespace, job = next(
                key for key, each in fleet.jobsets.items() if any(
                    pod.jobset == key[1] and pod.phase == "Running" for pod in fleet.pods.values()
                ) and not each.finished
            )  # fmt: skip
        finally:
            await session.close()
        place = f"gs://{BUCKET}/testbed-logs"
        assert await run("store-logs", job, place, "--json", "-n", namespace) == 0
        stored = {name for name, _ in json_output(capsys)["objects"]}
        assert "pod-logs/coordinator.log" in stored
        assert cluster.google is not None
        things = cluster.google.world.service_state(BucketStore).buckets[BUCKET].objects
        assert {f"testbed-logs/{name}" for name in stored} <= set(things)
        from console.errors import Conflict

        with pytest.raises(Conflict, match="is not empty"):
            await run("store-logs", job, place, "-n", namespace)
        assert await run("store-logs", job, place, "--replace", "-n", namespace) == 0
        with pytest.raises(NotFound):
            await run("store-logs", "nobody", f"{place}-2", "-n", namespace)


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
def test_no_library_of_googles_is_loaded_before_it_is_asked() -> None:
    program = (
        "import sys, console.session, console.google.images, console.google.storage, screens.pages.images, "
        "screens.pages.images, screens.pages.storage, "
        "screens.pages.storage, screens.cli.images, screens.cli.storage, screens.cli.clusters_and_nodes\n"
        "print(sorted(each for each in sys.modules if each.split('.')[0] in ('google', 'grpc', 'google_crc32c')))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.strip() == "[]"


async def test_escapes_in_the_names_of_objects_never_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"evil/{number} {text}" for number, text in enumerate(PAYLOADS.values())]
    async with typed() as (run, cluster):
        await run("buckets")  # practice Google starts at the first question
        assert cluster.google is not None
        vault = cluster.google.world.service_state(BucketStore)
        for name in (*names, "evil/../\x1b]0;PWNT\x07", "evil//\x1b[2J"):
            vault.put(BUCKET, name, b"x")
        await run("ls", f"gs://{BUCKET}/evil")
        await run("get", f"gs://{BUCKET}/evil", str(tmp_path / "in"))
    out, err = capsys.readouterr()
    assert len(out.splitlines()) > len(names) / 2
    assert "not a valid file name" in out + err
    assert RAW.findall(out + err) == []
    assert "File name too long" in err, "one that cannot be a file does not keep the others from coming"
    assert sum(len(names) for _, _, names in os.walk(tmp_path / "in" / "evil")) >= len(PAYLOADS) - 2
