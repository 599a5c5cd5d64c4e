"""How checks are run: what keeps one from looking, limits, one at a time anew, what was asked, and repairs."""

import asyncio
import gc
import re
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import yaml

from console.connection_settings import Settings
from console.errors import BadInput, NotAllowed
from console.google.clusters import is_gke, is_older
from console.preflight.all_checks import CHECKS, Preflight
from console.preflight.check import (
    CheckedCluster,
    CheckVerdict,
    RepairKind,
    Result,
    combine_all,
    combine_verdicts,
    fail,
    ok,
    tally_results,
    warn,
)
from console.preflight.cluster import MIN_GKE_VERSION, RECOMMENDED_GKE_VERSION
from console.session import Session
from practice.google.cloud import Fault
from practice.google.registry import RegistryStore
from practice.objects.resources import LOCALQUEUES
from tests.console.preflight.ground import CHECKED_KINDS, NCCL, ground


async def test_every_check_answers_with_evidence_and_a_fix() -> None:
    async with ground() as here:
        ended = [check.id async for check in here.session.preflight.run(here.wish(NCCL, "queue=a4"))]
        checks = await here.session.preflight.run_all(here.wish(NCCL, "queue=a4"))
        assert sorted(ended) == [check.id for check in checks] == [f"P{number:02d}" for number in range(1, 37)]
        assert all(check.evidence and check.fix and check.over for check in checks)
        assert all(check.reason for check in checks if check.result is not Result.OK)
        assert not tally_results(checks).failing
        asked = [look for check in checks for look in check.looks]
        assert {look.at for look in asked} == {"Kubernetes", "Google", "registry"}
        calls = [method for method, _ in here.world.calls if method.endswith("GetCluster")]
        assert len(calls) == 2, "each round asks for the cluster once, however many checks want it"


async def test_what_may_not_be_seen_is_not_missing() -> None:
    async with ground(reader=True) as here:
        checks = {
            check.id: check for check in await here.session.preflight.run_all(here.wish(NCCL, "storage.gcs=b=/gcs"))
        }
        assert checks["P09"].result is Result.NOT_ALLOWED
        assert "cannot get resource" in checks["P09"].reason or "not allowed" in checks["P09"].reason
        assert checks["P16"].result is Result.NOT_APPLICABLE
        assert checks["P01"].result is Result.OK, "the half that can be seen counts"
        assert checks["P33"].result is Result.FAIL
        assert "create jobsets" in checks["P33"].reason


async def test_no_answer_in_time_and_a_service_that_is_away() -> None:
    async with ground() as here:
        here.world.faults.append(Fault("GetCluster", grpc.StatusCode.OK, delay=3.0))
        cluster, values = CheckedCluster(here.session.watch, here.session.google), here.session.launch.catalogue.values
        (late,) = await Preflight(cluster, values, limit_seconds=0.2).run_all(here.wish(), ("P03",))
        assert late.result is Result.COULD_NOT
        assert "within" in late.reason
        assert late.looks[-1].outcome == "no answer in time"
        here.world.faults.append(Fault("BatchGetServices", grpc.StatusCode.INTERNAL, "it broke", times=9))
        broken = await here.look("P30")
        assert broken.result is Result.COULD_NOT
        assert "it broke" in broken.reason


@pytest.mark.slow(reason="all checks on a practice cluster")
async def test_a_service_that_is_off_offers_to_be_enabled() -> None:
    async with ground() as here:
        here.world.projects["practice"].enabled -= {"artifactregistry.googleapis.com"}
        check = await here.look("P31")
        assert check.result is Result.FAIL
        assert check.repair is not None
        assert check.repair.kind is RepairKind.SERVICE
        assert "artifactregistry.googleapis.com" in check.repair.words
        assert "Enabled" in await here.session.preflight.repair(check.repair)
        assert (await here.look("P31")).result is Result.OK
        assert (await here.look("P30")).result is Result.OK


@pytest.mark.slow(reason="all checks on a practice cluster")
async def test_an_addon_is_switched_on() -> None:
    async with ground() as here:
        wish = here.wish("qwen3-next-lustre")
        check = await here.look("P21", wish)
        assert check.repair is not None
        assert check.repair.target[-1] == "lustreLegacyPort"
        assert "--enable-legacy-lustre-port" in check.command
        assert "practice --location=us-central1 --project=practice" in check.command
        await here.session.preflight.repair(check.repair)
        assert (await here.look("P21", wish)).result is Result.OK
        nfs = here.wish("qwen3-sft", "storage.nfs.server=10.128.15.200", "storage.nfs.instance=shared")
        driver = await here.look("P20", nfs)
        assert driver.result is Result.FAIL
        assert driver.repair is not None
        await here.session.preflight.repair(driver.repair)
        assert (await here.look("P20", nfs)).result is Result.OK


@pytest.mark.slow(reason="all checks on a practice cluster")
async def test_a_repository_and_a_queue_are_created() -> None:
    async with ground() as here:
        wish = here.wish(NCCL, "queue=a4-high", registry="us-central1-docker.pkg.dev/practice/mine")
        check = await here.look("P31", wish)
        assert check.repair is not None
        await here.session.preflight.repair(check.repair)
        assert (
            "projects/practice/locations/us-central1/repositories/mine"
            in here.world.service_state(RegistryStore).repositories
        )
        queue = await here.becomes(Result.FAIL, "P16", wish)
        assert queue.repair is not None
        assert queue.repair.words == "Create LocalQueue a4-high in namespace default, which draws on ClusterQueue a4"
        await here.session.preflight.repair(queue.repair)
        assert here.cluster.storage.find(LOCALQUEUES, "default", "a4-high")
        await here.becomes(Result.OK, "P16", wish)


async def test_nothing_is_mended_in_read_only_mode() -> None:
    async with ground(read_only=True) as here:
        wish = here.wish(NCCL, "queue=a4-high")
        check = await here.becomes(Result.FAIL, "P16", wish)
        assert check.repair is not None
        with pytest.raises(NotAllowed, match="create LocalQueue a4-high"):
            await here.session.preflight.repair(check.repair)
        assert here.cluster.storage.find(LOCALQUEUES, "default", "a4-high") is None


async def test_without_google_credentials_the_cluster_is_still_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    async with ground() as here:
        told = yaml.safe_load(here.cluster.kubeconfig.read_text())
        del told["clusters"][0]["cluster"]["extensions"]
        told["contexts"][0]["name"] = told["current-context"] = "gke_practice_us-central1_practice"
        place = tmp_path / "kubeconfig"
        place.write_text(yaml.safe_dump(told))
        session = await Session.open(Settings(kubeconfig=place), kinds=CHECKED_KINDS)
        try:
            await session.wait_until_listed(*CHECKED_KINDS)
            kubernetes = ("P01", "P02", "P04", "P05", "P08", "P09", "P13", "P14", "P15", "P16", "P27", "P28", "P33")
            checks = await session.preflight.run_all(session.preflight.launch_needs(), (*kubernetes, "P03", "P30"))
        finally:
            await session.close()
    found = {check.id: check for check in checks}
    assert {found[id_].result for id_ in kubernetes} == {Result.OK}
    assert found["P03"].result is found["P30"].result is Result.COULD_NOT
    assert "gcloud auth application-default login" in found["P03"].fix
    assert "credentials" in found["P09"].evidence


@pytest.mark.slow(reason="all checks on a practice cluster")
async def test_a_pod_that_runs_the_image_is_asked_what_it_has() -> None:
    image = "us-central1-docker.pkg.dev/practice/images/pytorch-gpu-nemo-nccl:nemo25.04-gib1.0.6-A4"
    async with ground(scene="full") as here:
        (pod,) = [
            key[1] for key, each in here.session.fleet.pods.items() if each.name.startswith("nccl-0412-workload-0-0")
        ]
        for recipe, program in ((NCCL, "mpirun"), ("qwen3-30b-pretrain", "torchrun")):
            check = await here.look("P24", here.wish(recipe, f"image={image}"))
            assert check.result is Result.OK
            assert re.search(rf"Pod {pod}, which runs it, has .*{program}", check.evidence)
        assert f"exec in {pod}: command -v ..." in [each.what for each in check.looks]


@pytest.mark.slow(reason="all checks on a practice cluster")
async def test_logs_of_pods_tell_of_ways_out() -> None:
    async with ground(scene="full") as here:
        await here.session.wait_until_listed("pods")
        pods = here.session.fleet.pods.values()
        pod = max((each for each in pods if each.jobset and each.phase == "Running"), key=lambda each: each.created)
        wish = replace(here.session.preflight.launch_needs(), namespace=pod.namespace)
        log = here.cluster.kubelets.find_log(pod.namespace, pod.name, "workload", previous=False)
        log.add(here.cluster.clock.now(), "Get:1 http://archive.ubuntu.com/ubuntu noble InRelease [256 kB]")
        assert f"Pod {pod.name} recently reached the internet: Get:1" in (await here.look("P26", wish)).evidence
        log.add(
            here.cluster.clock.now(),
            "fatal: unable to access 'https://github.com/x/': Could not resolve host: github.com",
        )
        lost = await here.look("P26", wish)
        assert lost.result is Result.WARN
        assert "Could not resolve host: github.com" in lost.evidence


async def test_an_unknown_check_is_named() -> None:
    async with ground() as here:
        with pytest.raises(BadInput, match="P99"):
            await here.look("P99")


def test_halves_are_joined() -> None:
    blind = CheckVerdict(Result.COULD_NOT, "No result.", "There was no login.", "Log in.")
    assert combine_verdicts(ok("a."), blind).result is Result.OK
    assert "Not seen: There was no login." in combine_verdicts(ok("a."), blind).evidence
    assert combine_verdicts(ok("a."), blind, all_required=True).result is Result.COULD_NOT
    assert combine_verdicts(ok("a."), warn("b.", "why"), fail("c.", "worse", "do")).result is Result.FAIL
    assert combine_verdicts(blind, blind).result is Result.COULD_NOT


async def test_parts_of_a_check_that_is_cancelled_before_they_began_are_ended() -> None:
    async def part() -> CheckVerdict:
        return ok("a.")

    looking = asyncio.ensure_future(combine_all(part(), part()))
    await asyncio.sleep(0)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    gc.collect()  # what was never awaited is an error of this test


def test_the_ids_are_the_documents() -> None:
    assert [check.id for check in CHECKS] == [f"P{number:02d}" for number in range(1, 37)]
    assert all(check.fix and check.title and check.area for check in CHECKS)


def test_versions_are_compared_by_their_numbers() -> None:
    assert is_older("v1.31.6-gke.1064001", MIN_GKE_VERSION)
    assert not is_older("v1.32.4-gke.1236000", RECOMMENDED_GKE_VERSION)
    assert is_older("v1.32.4-gke.1236000", "1.32.4-gke.1236001")
    assert not is_older("v1.100.0", MIN_GKE_VERSION), "numbers, not letters"
    assert not is_gke("v1.36.4")
    assert is_gke("v1.36.4-gke.1047000")
