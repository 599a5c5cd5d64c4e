"""Each check is seen to fail in the demo: `A4_PRACTICE_HARM=P08,… a4 --demo preflight` takes away what it looks for."""

import pytest

from console.preflight.all_checks import CHECKS
from console.preflight.check import Result
from practice.google.bucket_store import BUCKET
from practice.scene.cluster_faults import TAKEN_NAME, VARIABLE
from tests.console.preflight.ground import NCCL, Ground, ground

TROUBLE = {Result.FAIL, Result.WARN, Result.COULD_NOT}
QUEUED = (NCCL, "queue=a4")
MOUNTS = (NCCL, f"storage.gcs={BUCKET}=/gcs", "network.hostNetwork=true")
SSD = (NCCL, "storage.ssd=/ssd")
LUSTRE = ("qwen3-next-lustre", "storage.lustre.server=10.128.15.210")
HARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "P01": ("control plane could not be upgraded", ()),
    "P02": ("1.31.6-gke.1064001", ()),
    "P03": ("Autopilot", ()),
    "P04": ("no node pool has a4-highgpu-8g", QUEUED),
    "P05": ("Without topology labels", ()),
    "P06": ("fewer GPUs than the job wants", QUEUED),
    "P07": ("team", QUEUED),
    "P08": ("gke-metadata-server", ()),
    "P09": ("gcsfuse.csi.storage.gke.io", MOUNTS),
    "P10": ("v1.15.0", MOUNTS),
    "P11": ("storage.googleapis.com is not enabled", MOUNTS),
    "P12": ("roles/storage.objectAdmin", MOUNTS),
    "P13": ("DCGM", ()),
    "P14": ("controller of JobSet", ()),
    "P15": ("controller of Kueue", QUEUED),
    "P16": ("no LocalQueue a4", QUEUED),
    "P17": ("quota never reaches", QUEUED),
    "P18": ("no Topology", QUEUED),
    "P19": ("file.googleapis.com is not enabled", ()),
    "P20": ("filestore.csi.storage.gke.io", ()),
    "P21": ("no CSIDriver lustre.csi.storage.gke.io", LUSTRE),
    "P22": ("lustre.googleapis.com is not enabled", LUSTRE),
    "P23": ("is not there", QUEUED),
    "P24": ("CUDA 12.4.1", (NCCL, "image=us-central1-docker.pkg.dev/practice/a4/testbed:nemo25.04-gib1.0.6-A4")),
    "P25": ("nccl-plugin-gib-diagnostic", QUEUED),
    "P26": ("no Cloud NAT", ()),
    "P27": ("rdma-3", ()),
    "P28": ("deny-all", ()),
    "P29": ("No local SSD", SSD),
    "P30": ("cloudbuild.googleapis.com", ()),
    "P31": ("artifactregistry.googleapis.com is not enabled", ()),
    "P32": ("cloudbuild.builds.create", ()),
    "P33": ("create jobsets", ()),
    "P34": ("A name belongs to one", (NCCL,)),
    "P35": ("container.clusters.create", ()),
    "P36": ("no WorkloadPriorityClass high", (*QUEUED, "priorityClass=high")),
}
"""What the check says then, and the launch that it is asked about (none: the cluster as a whole)."""
TOGETHER = (
    ("P01", "P02", "P05", "P06", "P07", "P08", "P09", "P10", "P12", "P13", "P14", "P15", "P16", "P23", "P25", "P26",
     "P27", "P28", "P29", "P32", "P33", "P34", "P35",
     "P36"),
    ("P03", "P11", "P17", "P18", "P19", "P22", "P24", "P30", "P31"),
    ("P04", "P20", "P21"),
)  # fmt: skip
"""Harms that do not hide each other."""


async def look(here: Ground, id_: str) -> tuple[Result, str, str]:
    check = await here.look(id_, here.wish(*HARMS[id_][1], name=TAKEN_NAME if id_ == "P34" else "train-1"))
    return check.result, f"{check.evidence} {check.reason}", check.fix


@pytest.mark.parametrize("together", TOGETHER, ids=lambda ids: ids[0])
async def test_what_is_taken_away_is_reported(together: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, ", ".join(each.lower() for each in together))
    async with ground() as here:
        for id_ in together:
            result, words, fix = await look(here, id_)
            # P35 is for information: it fails nothing, and says what is missing.
            assert result in TROUBLE or (id_ == "P35" and result is Result.NOT_APPLICABLE), (id_, result, words)
            assert HARMS[id_][0] in words, (id_, words)
            assert fix


async def test_unharmed_none_of_them_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    async with ground() as here:
        for id_, (words, _) in HARMS.items():
            result, said, _ = await look(here, id_)
            wrong = {"P20", "P21"}  # add-ons that the practice cluster lacks, or has without the legacy port
            assert (result in TROUBLE) is (id_ in wrong), (id_, result, said)
            assert words not in said or id_ == "P20" or result is Result.OK, (id_, said)


async def test_an_instance_without_an_address_has_none_rather_than_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    async with ground() as here:
        assert "zonal-old in us-central1-b: no address, ERROR" in (await here.look("P19")).evidence
        assert "scratch in us-central1-b: no address, CREATING" in (await here.look("P22")).evidence


async def test_google_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "google")
    async with ground() as here:
        check = await here.look("P03")
        assert check.result is Result.COULD_NOT
        assert "asked for by A4_PRACTICE_HARM" in check.reason


def test_every_check_can_be_harmed() -> None:
    assert HARMS.keys() == {check.id for check in CHECKS}
    assert sorted(id_ for ids in TOGETHER for id_ in ids) == sorted(HARMS)
