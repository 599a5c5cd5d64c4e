"""Builds and registries with Google's own clients on the wire: W23 from the form's plan to the image in the form."""

import asyncio
import dataclasses
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import pytest

from console.errors import ApiDisabled, BadInput, Conflict, NotAllowed, NotFound, Refused, Unreachable
from console.google import builds
from console.google.bucket_paths import GcsPlace
from console.google.builds import REGISTRY_KEY, TAG_KEY, Build, BuildPlan
from console.google.images import GoogleImages
from console.google.services import GoogleServices
from practice.google.bucket_store import BucketState, BucketStore
from practice.google.builds import BuildStore
from practice.google.cloud import DISABLED, LOCKED, Fault
from practice.google.registry import ADDRESS
from practice.node.registries import STOCK
from tests.google.practised import google


async def printed(images: GoogleImages, build: Build) -> list[str]:
    async with aclosing(images.follow_log(build.id)) as lines:
        return [line.text async for line in lines]


def own(tmp_path: Path, dockerfile: str) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "Dockerfile").write_text(dockerfile)
    return folder


async def own_plan(images: GoogleImages, folder: Path, **more: Any) -> BuildPlan:
    return dataclasses.replace(await images.new_plan(await images.read_context(folder)), **more)


async def test_a_build_prints_ends_and_its_image_is_offered_at_once() -> None:
    async with google() as (session, _):
        images = session.google.images
        plan = await images.new_plan(await images.find_context("unified-testbed"))
        assert plan.image == f"{ADDRESS}/unified-testbed-pytorch:25.06-py3"
        plan = dataclasses.replace(plan, substitutions={**plan.substitutions, TAG_KEY: "mine-1"}, time_out=3600)
        build = await images.start_build(plan)
        assert not build.over
        assert (build.machine, build.time_out) == ("e2-highcpu-32", 3600.0)
        assert (await session.read_choices())["images"].details[plan.image] == "being built"
        lines = await printed(images, build)
        assert lines[0] == f'starting build "{build.id}"'
        assert lines[-1] == "DONE"
        assert len(lines) == len(set(enumerate(lines)))
        assert any("nvcr.io/nvidia/pytorch:25.06-py3" in line for line in lines)
        ended = await images.read_build(build.id)
        assert ended.succeeded
        assert ended.images == (plan.image,)
        found = await images.survey_registry()
        assert next(each for each in found.images if "mine-1" in each.tags).digest == ended.digests[0]
        offer = (await session.read_choices())["images"]
        assert offer.names[0] == plan.image
        assert offer.details[plan.image] == "built"


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_no_line_of_a_log_comes_twice_or_is_lost_however_often_one_looks() -> None:
    async with google(speed=40) as (session, world):
        world.page = 3
        images = session.google.images
        images.poll_seconds = 0.0
        build = await images.start_build(await images.new_plan(await images.find_context("testbed")))
        seen = await printed(images, build)
        from practice.google.build_log_entries import LogEntries

        assert seen == [each.text_payload for each in world.service_state(LogEntries).entries[build.id]]


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_a_log_whose_session_is_closed_under_it_ends_with_a_sentence() -> None:
    async with google(speed=1) as (session, _):
        build = await session.google.images.start_build(
            await session.google.images.new_plan(await session.google.images.find_context("testbed"))
        )
        async with aclosing(session.google.images.follow_log(build.id)) as lines:
            await anext(lines)
            await session.close()
            with pytest.raises(Unreachable, match=r"connection to Google was closed\."):
                async for _line in lines:
                    pass


async def test_a_log_that_is_in_a_bucket_alone_is_read_there(tmp_path: Path) -> None:
    folder = own(tmp_path, "FROM debian:12\nRUN true\n")
    (folder / "cloudbuild.yaml").write_text(
        "steps: [{name: gcr.io/cloud-builders/docker, args: [build, '--tag=${_ARTIFACT_REGISTRY}/a:1', .]}]\n"
        "images: ['${_ARTIFACT_REGISTRY}/a:1']\n"
        "logsBucket: gs://practice-a4-runs\n"
        "options: {logging: GCS_ONLY}\n"
    )
    async with google() as (session, _):
        build = await session.google.images.start_build(await own_plan(session.google.images, folder))
        lines = await printed(session.google.images, build)
        assert lines[-1] == "DONE"
        assert f"Successfully tagged {ADDRESS}/a:1" in lines


INSTALL = "apt-get update && apt-get install -y curl && echo deb > list && pip install --no-cache-dir numpy"


async def test_a_dockerfile_of_ones_own_becomes_a_tag_in_the_registry(tmp_path: Path) -> None:
    async with google() as (session, _):
        plan = await own_plan(session.google.images, own(tmp_path, f"FROM debian:12\nRUN {INSTALL}\n"))
        plan = dataclasses.replace(plan, substitutions={**plan.substitutions, TAG_KEY: "tried-1"})
        lines = await printed(session.google.images, await session.google.images.start_build(plan))
        assert [each for each in lines if "Setting up" in each] == ["Setting up curl ...", "Setting up numpy ..."]
        assert plan.image in {
            name for each in (await session.google.images.survey_registry()).images for name in each.references
        }
        assert plan.image.endswith(":tried-1")


@pytest.mark.parametrize(
    ("dockerfile", "why"),
    [
        ("FROM debian:12\nCOPY train.py /\n", "stat train.py: file does not exist"),
        ("FROM debian:12\nRUN exit 3\n", "returned a non-zero code: 3"),
        ("FROM example.com/missing:1\n", "manifest unknown"),
    ],
)
async def test_a_build_that_fails_says_why(tmp_path: Path, dockerfile: str, why: str) -> None:
    async with google() as (session, _):
        plan = await own_plan(session.google.images, own(tmp_path, dockerfile))
        build = await session.google.images.start_build(plan)
        assert any(why in line for line in await printed(session.google.images, build))
        ended = await session.google.images.read_build(build.id)
        assert ended.status == "FAILURE"
        assert why in ended.why
        assert plan.image not in (await session.read_choices())["images"].names


async def test_a_build_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with google() as (session, _):
        build = await session.google.images.start_build(
            await own_plan(session.google.images, own(tmp_path, "FROM debian\n"), time_out=1)
        )
        await printed(session.google.images, build)
        assert (await session.google.images.read_build(build.id)).status == "TIMEOUT"


async def test_a_build_is_cancelled_once() -> None:
    async with google(speed=1) as (session, _):
        images = session.google.images
        build = await images.start_build(await images.new_plan(await images.find_context("testbed")))
        assert (await images.cancel_build(build.id)).status == "CANCELLED"
        with pytest.raises(Refused, match="is over: CANCELLED"):
            await images.cancel_build(build.id)
        assert (await printed(images, build))[-1] == "ERROR: context canceled"


async def test_the_list_comes_in_pages_latest_first() -> None:
    async with google() as (session, world):
        world.page = 1
        found = await session.google.images.list_builds()
        assert [each.status for each in found] == ["CANCELLED", "FAILURE", "SUCCESS", "SUCCESS"]
        assert found[1].why == "manifest for nvcr.io/nvidia/pytorch:25.12-missing not found: manifest unknown"
        assert found[2].seconds(0.0) == pytest.approx(1122, abs=1)
        assert len(await session.google.images.list_builds(limit=2)) == 2
        registry = await session.google.images.survey_registry()
        assert len(registry.images) == len(STOCK)
        assert {each.location for each in registry.repositories} == {"us-central1", "us"}


async def test_words_and_a_fix_for_what_google_refuses() -> None:
    async with google() as (session, world):
        images = session.google.images
        with pytest.raises(ApiDisabled) as off:
            await images.list_builds(project=DISABLED)
        assert off.value.service == "cloudbuild.googleapis.com"
        assert "gcloud services enable" in off.value.hint
        with pytest.raises(NotAllowed):
            await images.list_builds(project=LOCKED)
        with pytest.raises(NotFound):
            await images.read_build("nothing")
        world.faults.append(Fault("ListBuilds", grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded for builds"))
        with pytest.raises(Refused, match="Quota exceeded"):
            await images.list_builds()
        world.faults.append(Fault("CreateBuild", grpc.StatusCode.UNAVAILABLE))
        before = len(world.service_state(BuildStore).builds)
        with pytest.raises(Unreachable):
            await images.start_build(await images.new_plan(await images.find_context("testbed")))
        assert len(world.service_state(BuildStore).builds) == before


async def test_one_repository_that_cannot_be_read_keeps_none_of_the_others_away() -> None:
    async with google() as (session, world):
        world.faults.append(Fault("ListDockerImages", grpc.StatusCode.PERMISSION_DENIED, "no"))
        found = await session.google.images.survey_registry()
        assert len(found.unread) == 1
        assert found.images


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_a_repository_is_made_and_made_once() -> None:
    async with google() as (session, _):
        made = await session.google.images.create_repository("practice", "us-central1", "fresh")
        assert made.address == "us-central1-docker.pkg.dev/practice/fresh"
        assert made in (await session.google.images.survey_registry("practice", "us-central1")).repositories
        with pytest.raises(Conflict):
            await session.google.images.create_repository("practice", "us-central1", "fresh")
        with pytest.raises(BadInput, match="lowercase"):
            await session.google.images.create_repository("practice", "us-central1", "Not_Fresh")


async def test_nothing_is_built_or_cancelled_in_read_only_mode() -> None:
    async with google(read_only=True) as (session, world):
        plan = await session.google.images.new_plan(await session.google.images.find_context("testbed"))
        with pytest.raises(NotAllowed, match="read-only"):
            await session.google.images.start_build(plan)
        with pytest.raises(NotAllowed, match="read-only"):
            await session.google.images.cancel_build("x")
        with pytest.raises(NotAllowed, match="read-only"):
            await session.google.images.create_repository("practice", "us-central1", "fresh")
        assert not [name for name, _ in world.calls if "Create" in name or "Cancel" in name]


async def test_without_a_cluster_nothing_is_changed_in_read_only_mode() -> None:
    alone = GoogleServices(read_only=True)
    with pytest.raises(NotAllowed, match=r"Could not create repository fresh: .*read-only"):
        await alone.images.create_repository("practice", "us-central1", "fresh")
    with pytest.raises(NotAllowed, match=r"Could not store the logs of a-job: .*read-only"):
        await alone.storage.store_logs("default", "a-job", GcsPlace("logs", "a/"))
    await alone.close()


async def test_a_bucket_of_somebody_else_gets_no_source(tmp_path: Path) -> None:
    async with google() as (session, world):
        vault = world.service_state(BucketStore)
        vault.buckets["practice_cloudbuild"] = BucketState(
            "practice_cloudbuild", "practice-shared", "US", "multi-region", 0
        )
        plan = await own_plan(session.google.images, own(tmp_path, "FROM debian\n"))
        with pytest.raises(Conflict):
            await session.google.images.start_build(plan)
        assert not vault.buckets["practice_cloudbuild"].objects


def no_listing() -> Fault:
    words = "does not have storage.buckets.list access"
    return Fault("ListBuckets", grpc.StatusCode.PERMISSION_DENIED, words, times=10)


@pytest.mark.parametrize("there", [True, False])
async def test_the_source_needs_no_right_to_list_buckets(tmp_path: Path, there: bool) -> None:
    async with google() as (session, world):
        vault = world.service_state(BucketStore)
        vault.buckets.pop("practice_cloudbuild", None)
        if there:
            vault.add(BucketState("practice_cloudbuild", "practice", "US", "multi-region", 0))
        world.faults.append(no_listing())
        await session.google.images.start_build(await own_plan(session.google.images, own(tmp_path, "FROM debian\n")))
        made = vault.buckets["practice_cloudbuild"]
        assert made.objects
        assert made.location == ("US" if there else "US-CENTRAL1"), "where the build runs"


async def test_without_a_right_to_list_a_bucket_of_somebody_else_gets_no_source(tmp_path: Path) -> None:
    async with google() as (session, world):
        vault = world.service_state(BucketStore)
        vault.buckets["practice_cloudbuild"] = BucketState(
            "practice_cloudbuild", "practice-shared", "US", "multi-region", 0
        )
        world.faults.append(no_listing())
        with pytest.raises(Conflict):
            await session.google.images.start_build(
                await own_plan(session.google.images, own(tmp_path, "FROM debian\n"))
            )
        assert not vault.buckets["practice_cloudbuild"].objects


# contexts and plans, without Google


def test_the_image_is_the_one_that_the_description_names(tmp_path: Path) -> None:
    folder = own(tmp_path, "FROM debian\n")
    plan = BuildPlan(builds.read_context(folder), "practice", "us-central1", {"_ARTIFACT_REGISTRY": ADDRESS})
    assert plan.image == f"{ADDRESS}/{folder.name}:latest"
    steps = "steps: [{name: docker, args: [build, -t, '$LOCATION-docker.pkg.dev/$PROJECT_ID/own/trainer:$_TAG', .]}]\n"
    (folder / "cloudbuild.yaml").write_text(f"{steps}substitutions: {{_TAG: v2}}\n")
    plan = dataclasses.replace(plan, context=builds.read_context(folder))
    assert plan.image == "us-central1-docker.pkg.dev/practice/own/trainer:v2"
    (folder / "cloudbuild.yaml").write_text(
        f"{steps}images: ['${{_ARTIFACT_REGISTRY}}/a:1', '$_ARTIFACT_REGISTRY/b']\n"
    )
    assert dataclasses.replace(plan, context=builds.read_context(folder)).image == f"{ADDRESS}/a:1, {ADDRESS}/b"
    (folder / "cloudbuild.yaml").write_text("steps: [{name: bash, script: make}]\n")
    assert dataclasses.replace(plan, context=builds.read_context(folder)).image == folder.name


def test_the_documents_images_are_there_with_their_defaults() -> None:
    found = {each.name: each for each in builds.bundled_contexts()}
    assert set(found) == {"pai-megatron-patch", "testbed", "unified-testbed"}
    images = {
        f"{each.defaults['_IMAGE_NAME']}:{each.defaults['_IMAGE_TAG']} from {each.defaults['_BASE_IMAGE']}"
        for each in found.values()
    }
    assert images == {
        "pai_megatron_patch_a4:25.04 from dsw-registry.cn-wulanchabu.cr.aliyuncs.com/pai/pai-megatron-patch:25.04",
        "unified-testbed-pytorch:25.06-py3 from nvcr.io/nvidia/pytorch:25.06-py3",
        "testbed:nemo25.04-gib1.0.6-A4 from us-central1-docker.pkg.dev/deeplearning-images/reproducibility/"
        "pytorch-gpu-nemo-nccl:nemo25.04-gib1.0.6-A4",
    }
    for each in found.values():
        assert each.title
        assert REGISTRY_KEY in each.wanted
        dockerfile = (each.folder / "Dockerfile").read_text()
        assert f"ARG BASE_IMAGE={each.defaults['_BASE_IMAGE']}\nFROM ${{BASE_IMAGE}}\n" in dockerfile
        assert "PRIVATE KEY" not in dockerfile


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({}, "_ARTIFACT_REGISTRY has no value"),
        ({REGISTRY_KEY: "docker.io/me"}, "is not a repository of Artifact Registry"),
        ({REGISTRY_KEY: ADDRESS, TAG_KEY: "a:b"}, "cannot be a tag"),
        ({REGISTRY_KEY: ADDRESS, "_IMAGE_NAME": "Big Name"}, "cannot be the name of an image"),
        ({REGISTRY_KEY: ADDRESS, "_NOBODY": "x"}, "has no substitution _NOBODY"),
    ],
)
def test_what_cannot_be_built_is_reported_before_anything_is_sent(values: dict[str, str], word: str) -> None:
    context = next(each for each in builds.bundled_contexts() if each.name == "testbed")
    assert word in " ".join(words for _, words in builds.plan_problems(BuildPlan(context, "p", "l", values)))


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no Dockerfile"):
        builds.read_context(tmp_path)
    with pytest.raises(BadInput, match="There is no folder"):
        builds.read_context(tmp_path / "nowhere")
    (tmp_path / "cloudbuild.yaml").write_text("steps: {a: 1}")
    with pytest.raises(BadInput, match="not a build configuration"):
        builds.read_context(tmp_path)
    (tmp_path / "cloudbuild.yaml").write_text("steps: [")
    with pytest.raises(BadInput, match="cannot be read"):
        builds.read_context(tmp_path)
    (tmp_path / "Other.Dockerfile").write_text("# Something of mine\nFROM debian\n")
    found = builds.read_context(tmp_path / "Other.Dockerfile")
    assert (found.title, found.dockerfile) == ("Something of mine", "Other.Dockerfile")
    described = builds.read_build_description(found.folder, found.dockerfile)
    assert "--file=Other.Dockerfile" in described["steps"][0]["args"]


async def test_a_description_that_google_would_not_take_is_refused_here(tmp_path: Path) -> None:
    folder = own(tmp_path, "FROM debian\n")
    (folder / "cloudbuild.yaml").write_text("steps: [{name: a, argz: [b]}]\n")
    async with google() as (session, world):
        with pytest.raises(BadInput, match="argz"):
            await session.google.images.start_build(await own_plan(session.google.images, folder))
        assert not [name for name, _ in world.calls if "Create" in name]


def test_what_is_packed_is_the_folder_without_what_nobody_builds_from(tmp_path: Path) -> None:
    import tarfile

    folder = own(tmp_path, "FROM debian\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    (folder / "src").mkdir()
    (folder / "src" / "a.py").write_text("pass")
    (folder / "link").symlink_to("src/a.py")
    target = tmp_path / "out.tgz"
    assert builds.pack_context(folder, target) == 3
    with tarfile.open(target) as packed:
        assert sorted(packed.getnames()) == ["Dockerfile", "link", "src/a.py"]
        assert {each.uid for each in packed.getmembers()} == {0}


async def test_many_consoles_remember_at_once(tmp_path: Path) -> None:
    """Threads stand for consoles: none fails, and nothing that one wrote is lost by another."""
    path = tmp_path / "images.json"

    def built(number: int) -> None:
        build = Build(
            f"b{number}",
            "p",
            "l",
            "SUCCESS",
            "",
            (f"i:{number}",),
            (),
            {},
            "",
            0.0,
            float(number),
            0.0,
            0.0,
            "",
            True,
            "",
        )
        builds.record_builds(path, [build])

    await asyncio.gather(*(asyncio.to_thread(built, number) for number in range(20)))
    assert {each.image for each in builds.read_built_images(path)} == {f"i:{number}" for number in range(20)}
