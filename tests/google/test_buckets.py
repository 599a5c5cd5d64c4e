"""Buckets, Lustre and Filestore with Google's own clients on the wire."""

from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from console.attach.files.copy_progress import CopyProgress
from console.errors import ApiDisabled, BadInput, Conflict, NotAllowed, NotFound
from console.google.api import cloud_storage
from console.google.bucket_paths import GcsPlace, parse_gcs_address
from console.google.storage import FilestoreInstance, LustreInstance
from console.launch.install import ChartCatalog
from console.launch.recipes import LaunchPlan
from console.logs.log_line import PodLine
from practice.google.bucket_store import BUCKET, FAR, RUN, BucketStore
from practice.google.cloud import DISABLED, LOCKED, Fault
from screens.columns.google import FILESTORE, LUSTRE, of_file_system
from tests.google.practised import google

OUTPUT = "logs/output_mcore_qwen3_pretrain"
CHECKPOINTS = f"gs://{BUCKET}/{OUTPUT}/checkpoint/{RUN}"


def files(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


async def test_buckets_by_the_cluster_come_first_and_say_how_they_lie() -> None:
    async with google() as (session, world):
        world.page = 1
        found = await session.google.storage.list_buckets()
        assert [each.name for each in found] == [BUCKET, "practice-datasets", FAR]
        region = await session.google.storage.cluster_region()
        assert [each.describe_distance(region) for each in found] == [
            "same region",
            "multi-region, includes it",
            "not in us-central1",
        ]


async def test_checkpoints_by_iteration_and_the_last_whole_one() -> None:
    async with google() as (session, world):
        world.page = 2
        found = await session.google.storage.list_folder(parse_gcs_address(CHECKPOINTS))
        assert [(each.iteration, each.latest) for each in found.objects if each.is_folder] == [
            (500, False),
            (1000, True),
            (1500, False),
        ]
        assert found.note.endswith("names 1000: later ones may be incomplete.")
        assert "6006" in (await session.google.storage.list_folder(GcsPlace(BUCKET, OUTPUT))).note


async def test_a_tree_comes_whole_and_once(tmp_path: Path) -> None:
    async with google() as (session, world):
        world.page = 4
        things = world.service_state(BucketStore).buckets[BUCKET].objects
        far: list[CopyProgress] = []
        report = await session.google.storage.fetch_folder(parse_gcs_address(CHECKPOINTS), tmp_path, far.append)
        wanted = {name: thing.content for name, thing in things.items() if f"checkpoint/{RUN}/" in name}
        prefix = f"{OUTPUT}/checkpoint/"
        assert files(tmp_path) == {name.removeprefix(prefix): content for name, content in wanted.items()}
        assert (report.files, report.kept, report.problems) == (7, 0, ())
        assert far[-1].done == far[-1].total == sum(map(len, wanted.values()))
        asked = sum("ReadObject" in name for name, _ in world.calls)
        again = await session.google.storage.fetch_folder(parse_gcs_address(CHECKPOINTS), tmp_path)
        assert (again.files, again.kept) == (7, 7)
        assert sum("ReadObject" in name for name, _ in world.calls) == asked


async def test_what_came_damaged_is_not_kept(tmp_path: Path) -> None:
    async with google() as (session, world):
        name = "datasets/mmap_qwen3_datasets_text_document-00.idx"
        world.service_state(BucketStore).damaged.add(name)
        report = await session.google.storage.fetch_folder(GcsPlace(BUCKET, name), tmp_path)
        assert report.files == 0
        assert "checksum differs" in report.problems[0][1]
        assert files(tmp_path) == {}
        assert (await session.google.storage.fetch_folder(GcsPlace(BUCKET, name), tmp_path)).problems == ()


async def test_what_broke_off_is_gone_on_with_and_has_no_final_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_storage, "CHUNK_BYTES", 100_000)
    async with google() as (session, world):
        vault = world.service_state(BucketStore)
        name = f"{OUTPUT}/checkpoint/{RUN}/iter_0000500/mp_rank_00_000/model_optim_rng.pt"
        content = vault.buckets[BUCKET].objects[name].content

        def cut(far: CopyProgress) -> None:
            if far.done == 100_000 and not world.faults:
                world.faults.append(Fault("ReadObject", grpc.StatusCode.PERMISSION_DENIED, "no longer"))

        report = await session.google.storage.fetch_folder(GcsPlace(BUCKET, name), tmp_path, cut)
        assert "no longer" in report.problems[0][1]
        (left,) = files(tmp_path).items()
        assert left[0].endswith(".part")
        assert left[1] == content[:100_000]
        asked = sum("ReadObject" in method for method, _ in world.calls)
        done = await session.google.storage.fetch_folder(GcsPlace(BUCKET, name), tmp_path)
        assert done.problems == ()
        assert list(files(tmp_path).values()) == [content]
        assert sum("ReadObject" in method for method, _ in world.calls) == asked + 2


async def test_an_object_that_is_replaced_while_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_storage, "CHUNK_BYTES", 1000)
    async with google() as (session, world):
        vault = world.service_state(BucketStore)
        name = "datasets/mmap_qwen3_datasets_text_document-01.idx"

        def replace(far: CopyProgress) -> None:
            if far.done == 1000:
                vault.put(BUCKET, name, b"another")

        report = await session.google.storage.fetch_folder(GcsPlace(BUCKET, name), tmp_path, replace)
        assert "replaced or deleted during the download" in report.problems[0][1]
        assert not (tmp_path / name.rpartition("/")[2]).exists()
        await session.google.storage.fetch_folder(GcsPlace(BUCKET, name), tmp_path)
        assert b"another" in files(tmp_path).values()


async def test_a_name_that_leads_out_of_the_folder_is_left_out(tmp_path: Path) -> None:
    async with google() as (session, world):
        world.service_state(BucketStore).put(BUCKET, "evil/../../outside", b"x")
        world.service_state(BucketStore).put(BUCKET, "evil/good", b"y")
        world.service_state(BucketStore).put(BUCKET, "evil/empty/", b"")
        report = await session.google.storage.fetch_folder(GcsPlace(BUCKET, "evil"), tmp_path / "in")
        assert [name for name, _ in report.problems] == ["evil/../../outside"]
        assert files(tmp_path) == {"in/evil/good": b"y"}


@pytest.mark.parametrize(
    "name",
    ["evil//double", "evil///etc/passwd", "evil/./../../outside", "evil/a/../..//outside", "evil/nul\0", "evil//../x"],
)
async def test_a_name_with_an_empty_or_climbing_part_is_left_out(tmp_path: Path, name: str) -> None:
    async with google() as (session, world):
        world.service_state(BucketStore).put(BUCKET, name, b"x")
        report = await session.google.storage.fetch_folder(GcsPlace(BUCKET, "evil"), tmp_path / "in")
        assert report.problems == ((name, "Its name is not a valid file name in that folder."),)
        assert files(tmp_path) == {}


@pytest.mark.parametrize("name", ["/etc/passwd", "//etc/passwd", "///x"])
async def test_a_name_that_begins_with_slashes_stays_inside(tmp_path: Path, name: str) -> None:
    async with google() as (session, world):
        vault = world.service_state(BucketStore)
        vault.buckets[BUCKET].objects.clear()
        vault.put(BUCKET, name, b"x")
        report = await session.google.storage.fetch_folder(GcsPlace(BUCKET), tmp_path / "in")
        assert (report.files, report.problems) == (1, ())
        assert files(tmp_path) == {f"in/{name.lstrip('/')}": b"x"}


async def test_words_for_what_google_refuses(tmp_path: Path) -> None:
    async with google() as (session, _):
        storage = session.google.storage
        with pytest.raises(NotFound, match="The specified bucket does not exist"):
            await storage.list_folder(GcsPlace("no-such-bucket"))
        with pytest.raises(NotFound, match="There is nothing at"):
            await storage.fetch_folder(GcsPlace(BUCKET, "nothing/here"), tmp_path)
        with pytest.raises(ApiDisabled) as off:
            await storage.list_buckets(DISABLED)
        assert off.value.service == "storage.googleapis.com"
        with pytest.raises(NotAllowed):
            await storage.list_buckets(LOCKED)
        with pytest.raises(ApiDisabled) as lustre:
            await storage.list_lustre("practice-shared")
        assert lustre.value.service == "lustre.googleapis.com"


@pytest.mark.parametrize("text", ["bucket", "s3://b/x", "gs://", "gs://B/x", "gs:///x"])
def test_what_is_no_place_in_a_bucket(text: str) -> None:
    with pytest.raises(BadInput, match="is not a path in a bucket"):
        parse_gcs_address(text)


async def test_a_large_file_goes_up_in_pieces_and_replaces_nothing(tmp_path: Path) -> None:
    async with google() as (session, world):
        buckets = await session.google.storage._buckets_of()
        file = tmp_path / "large"
        file.write_bytes(b"0123456789" * 900_000)
        place = GcsPlace(BUCKET, "up/large file +%")
        await buckets.upload(place, file)
        assert world.service_state(BucketStore).buckets[BUCKET].objects[place.path].content == file.read_bytes()
        with pytest.raises(Conflict, match="already exists"):
            await buckets.upload(place, file)
        await buckets.upload(place, file, replace=True)


async def test_lustre_fills_seven_fields_that_launch() -> None:
    async with google() as (session, world):
        world.page = 1
        found = await session.google.storage.list_lustre()
        assert [(each.name, each.state) for each in found] == [
            ("lustre", "ACTIVE"), ("scratch", "CREATING"), ("archive", "ACTIVE"),
        ]  # fmt: skip
        values = found[0].launch_values()
        assert values == {
            "storage": {
                "lustre": {
                    "claim": "lustre-pvc", "server": "10.128.15.210", "filesystem": "lustre", "instance": "lustre",
                    "project": "practice", "location": "us-central1-a", "size": "18000Gi",
                }
            }
        }  # fmt: skip
        plan = LaunchPlan("qwen3-next-lustre", "mine", "default", values)
        assert [each for each in ChartCatalog.from_chart().plan_problems(plan) if each.path.startswith("storage")] == []


async def test_filestore_fills_the_fields_of_nfs() -> None:
    async with google() as (session, _):
        shared, broken = await session.google.storage.list_filestore()
        assert broken.why == "The reserved range is used up."
        values = shared.launch_values()
        assert values["storage"] == {
            "nfs": {
                "claim": "shared-pvc", "server": "10.128.15.200", "share": "share", "instance": "shared",
                "location": "us-central1", "size": "10240Gi",
            }
        }  # fmt: skip
        plan = LaunchPlan("interactive", "mine", "default", values)
        assert [each for each in ChartCatalog.from_chart().plan_problems(plan) if each.path.startswith("storage")] == []


def test_the_reports_of_all_ranks_are_the_result_of_the_connectivity_test(tmp_path: Path) -> None:
    from console.logs.log_folder import RankLogFiles

    said = ["pod p, index 0 of 2", "step 7 connectivity: run", *["node-1"] * 8, *["node-2"] * 8,
            "step 7 connectivity: done in 3 s", "step 8 all-reduce: run"]  # fmt: skip
    logs = RankLogFiles(tmp_path)
    logs.add_lines([PodLine(0, 1.0, text) for text in said[:6]])
    logs.add_lines([PodLine(1, 1.0, "waiting for index 0")])
    logs.add_lines([PodLine(0, 2.0, text) for text in said[6:]])
    assert (tmp_path / "connectivity-test.log").read_text().splitlines() == said[1:-1]


def test_logs_are_laid_out_as_the_document_has_them(tmp_path: Path) -> None:
    from console.logs.log_folder import RankLogFiles

    logs = RankLogFiles(tmp_path)
    row = "  1048576  262144  float  sum  -1  123.4  17.01  31.89  0  123.4  17.01  31.89  0"
    logs.add_lines([PodLine(0, 1.0, "pong from w-1"), PodLine(1, 1.0, "hello"), PodLine(0, 2.0, "#  size  count")])
    logs.add_lines([PodLine(0, 3.0, row), PodLine(0, 4.0, "done")])
    assert logs.lines_by_file == {
        "pod-logs/coordinator.log": 4, "pod-logs/worker-1.log": 1, "connectivity-test.log": 1,
        "nccl-test-results.txt": 2,
    }  # fmt: skip
    assert (tmp_path / "nccl-test-results.txt").read_text() == f"#  size  count\n{row}\n"
    assert (tmp_path / "pod-logs/worker-1.log").read_text() == "hello\n"


SHARE = FilestoreInstance("p", "us-central1", "home", "READY", "ZONAL", "vol", 2048, "10.0.0.9", "default")
DISK = LustreInstance("p", "us-west1-b", "fast", "CREATING", "lustrefs", "10.0.0.2@tcp:/lustrefs", 18000, "default")


def test_a_file_system_is_a_row_with_its_region_size_and_endpoint() -> None:
    rows = [of_file_system(FILESTORE, SHARE, "us-central1"), of_file_system(LUSTRE, DISK, "us-central1")]
    assert [(row.match_text, row.is_near, row.size, row.address) for row in rows] == [
        ("same region", True, "2,048 GiB", "10.0.0.9:/vol"),
        ("not in us-central1", False, "18,000 GiB", "10.0.0.2@tcp:/lustrefs"),
    ]
    assert [bool(row.values) for row in rows] == [True, False]
    assert of_file_system(FILESTORE, replace(SHARE, address="", why="no address yet"), "").address == "no address yet"
