"""A pool's page with Google's side of it: what it is to have, what is under way, and what can be asked for."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from console.connection_settings import Settings
from console.errors import NotLoggedIn
from console.google.clusters import GkeCluster, GkeOperation, GkePool
from console.google.node_pools import PoolsSnapshot, PoolStatus, ProvisioningRequest
from console.kube.objects.node import Node, Provisioning
from screens.app import ConsoleApp
from screens.dialogs.question import Confirm, Pick, Prompt
from screens.pages.nodepools import NodepoolsScreen, PoolScreen
from tests.fakes import FakeSession, fleet_of
from tests.screens.press import console, press, screen_text, until, until_shown

NOW = time.time()
POOL = GkePool(
    name="a4-pool", status="RUNNING", message="", version="1.35.1", machine_type="a4-highgpu-8g",
    accelerator="nvidia-b200", accelerators=8, initial_size=3, zones=("us-central1-b",), autoscaling=True, least=2,
    most=8, spot=False, flex_start=False, queued=False, reservation="a4-res", placement="COMPACT", auto_repair=True,
    auto_upgrade=True, surge=0, unavailable=1, workload_metadata="GKE_METADATA", networks=9, local_ssds=32, taints=(),
)  # fmt: skip
REPAIR = GkeOperation("op-1", "AUTO_REPAIR_NODES", "RUNNING", "lab", "us-central1", "train", "a4-pool", "", "",
                      NOW - 90, 0.0, 0, 1)  # fmt: skip
RESIZE = replace(REPAIR, name="op-2", kind="SET_NODE_POOL_SIZE", done=0, total=2)
FLEX = replace(POOL, name="a4-flex", queued=True, flex_start=True, reservation="", least=0)
REQUEST = ProvisioningRequest("team", "flex-1", "accepted", "Waiting for resources.", 2, "queued", NOW - 60, None, "")


def facts(
    pool: GkePool = POOL, *, target: int | None = 3, operations: tuple[GkeOperation, ...] = (REPAIR,)
) -> PoolStatus:
    return PoolStatus(pool, target, 3, 2, 0, 0, operations, None)


def node(number: int, **more: object) -> Node:
    fields: dict[str, object] = {
        "name": f"n-{number}", "uid": f"u-{number}", "created": NOW - 9999, "pool": "a4-pool", "ready": number != 2,
        "machine_type": "a4-highgpu-8g", "gpus": 8, "gpu_capacity": 8, "reservation": "a4-res",
        "provisioning": Provisioning.RESERVATION,
    }  # fmt: skip
    return Node(**{**fields, **more})  # type: ignore[arg-type]


def picture(*pools: PoolStatus, operations: tuple[GkeOperation, ...] = (REPAIR,)) -> PoolsSnapshot:
    found = GkeCluster(
        project="lab", location="us-central1", name="train", status="RUNNING", message="", version="1.35.1",
        endpoint="34.1.2.3", private=False, dns_endpoint="", authority="", regional=True, autopilot=False, nodes=16,
        network="", subnetwork="", created=NOW, workload_pool="", addons=frozenset(),
        maintenance="Sundays, 02:00 to 08:00 UTC", pools=tuple(each.pool for each in pools),
    )  # fmt: skip
    return PoolsSnapshot(found, pools, operations, (REQUEST,))


def test_a_pool_whose_last_operation_failed_is_not_well() -> None:
    failed = replace(RESIZE, status="DONE", error="GCE_STOCKOUT: no machines")
    status = PoolStatus(POOL, 3, 3, 3, 0, 0, (), failed)
    assert (status.state, status.sentences) == ("bad", ("Set node pool size failed: GCE_STOCKOUT: no machines",))
    assert replace(status, operations=(RESIZE,)).state == "busy"  # it is tried again
    assert replace(status, failed=None).state == "ok"


@asynccontextmanager
async def page(
    told: object = None, *, name: str = "a4-pool", settings: Settings | None = None, nodes: tuple[Node, ...] = ()
) -> AsyncIterator[tuple[ConsoleApp, Pilot[int], FakeSession]]:
    session = FakeSession(fleet_of(*(nodes or (node(0), node(1), node(2)))), settings=settings)
    session.answers["pools"] = told or picture(facts(), facts(FLEX, target=0, operations=()))
    async with console(session, size=(150, 30), settings=settings) as (app, pilot, _):
        app.open_page(name) if name == "nodepools" else app.open_page("pool", name)
        await until(pilot, lambda: isinstance(app.screen, PoolScreen | NodepoolsScreen))
        yield app, pilot, session


async def test_what_google_wants_stands_beside_what_there_is() -> None:
    async with page() as (app, pilot, _):
        await until_shown(pilot, "1 of 3 nodes is being repaired")
        text = screen_text(app)
        for words in ("2 of 3 wanted nodes ready", "autoscaling 2 to 8", "reservation a4-res", "compact placement",
                      "maintenance Sundays, 02:00 to 08:00 UTC", "0/1"):  # fmt: skip
            assert words in text


async def test_what_is_under_way_is_reported_in_whole_sentences() -> None:
    told = picture(facts(operations=(RESIZE,)), operations=(RESIZE,))
    for name in ("a4-pool", "nodepools"):
        async with page(told, name=name) as (_, pilot, _):
            await until_shown(pilot, "a4-pool is being resized")


async def test_without_credentials_the_nodes_are_shown_and_what_to_do() -> None:
    error = NotLoggedIn("There are no Google credentials on this machine.", "Log in with `gcloud auth`.")
    async with page(error) as (app, pilot, _):
        await until_shown(pilot, "There are no Google credentials", "n-0")
        assert "Resize" not in screen_text(app)


async def test_a_resize_names_the_pool_and_what_goes() -> None:
    async with page() as (app, pilot, session):
        session.answers["resize"] = RESIZE
        await until_shown(pilot, "Resize")
        await press(pilot, "R", then=lambda: isinstance(app.screen, Prompt))
        await press(pilot, "backspace", "1", "enter", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(
            pilot, "Resize a4-pool from 3 to 1 node?", "2 nodes go with the pods on them.", "it would undo this"
        )
        assert session.called("resize") == []
        await press(pilot, "y", then=lambda: session.called("resize") == [("a4-pool", 1)])


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_is_no_number_is_refused_in_words() -> None:
    async with page() as (app, pilot, session):
        await until_shown(pilot, "Resize")
        await press(pilot, "R", then=lambda: isinstance(app.screen, Prompt))
        await pilot.press("x", "enter")
        await until(pilot, lambda: any("not a number" in each.message for each in app._notifications))
        assert session.called("resize") == []


async def test_limits_of_the_autoscaler() -> None:
    async with page() as (app, pilot, session):
        session.answers["scale_between"] = RESIZE
        await until_shown(pilot, "Limits")
        await press(pilot, "L", then=lambda: isinstance(app.screen, Prompt))
        await press(pilot, *["backspace"] * 3, "0", "space", "0", "enter", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "Turn autoscaling of a4-pool off?")
        await press(pilot, "y", then=lambda: session.called("scale_between") == [("a4-pool", 0, 0)])


async def report(pilot: Pilot[int], app: ConsoleApp, typed: str) -> None:
    await until_shown(pilot, "Report faulty")
    await press(pilot, "F", then=lambda: isinstance(app.screen, Pick))
    await press(pilot, *"XID", "enter", then=lambda: isinstance(app.screen, Prompt))
    await until_shown(pilot, "disks are wiped", "Type the node's name")
    await pilot.press(*(key if key != "-" else "minus" for key in typed), "enter")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_report_wants_the_name_typed() -> None:
    async with page() as (app, pilot, session):
        await report(pilot, app, "n-1")
        await until(pilot, lambda: any("nothing was reported" in each.message for each in app._notifications))
        assert session.called("report") == []
        await report(pilot, app, "n-0")
        await until(pilot, lambda: session.called("report") == [("n-0", "XID")])


async def test_a_reported_host_has_a_row_and_no_second_report() -> None:
    nodes = (node(0, fault="XID", repair="PodsEvicted"), node(1), node(2))
    async with page(nodes=nodes) as (app, pilot, _):
        await until_shown(pilot, "reported faulty (XID): its pods are evicted", "Resize")
        assert "Report faulty" not in screen_text(app)


async def test_spot_machines_cannot_be_reported() -> None:
    spot = node(0, reservation="", provisioning=Provisioning.SPOT)
    async with page(nodes=(spot,)) as (app, pilot, _):
        await until_shown(pilot, "Resize")
        assert "Report faulty" not in screen_text(app)


async def test_read_only_shows_and_changes_nothing() -> None:
    async with page(settings=Settings(read_only=True)) as (app, pilot, _):
        await until_shown(pilot, "being repaired")
        for word in ("Resize", "Limits", "Report faulty"):
            assert word not in screen_text(app)


async def test_a_pool_of_dws_shows_its_requests_and_has_no_size_to_set() -> None:
    async with page(name="a4-flex") as (app, pilot, _):
        await until_shown(pilot, "team/flex-1 for 2 pods: accepted")
        assert "Resize" not in screen_text(app)


async def test_all_pools_also_those_without_a_machine() -> None:
    async with page(name="nodepools") as (app, pilot, _):
        await until_shown(pilot, "a4-flex")
        text = screen_text(app)
        for words in ("lab/us-central1/train", "2/3", "DWS, queued", "team/flex-1 for 2 pods"):
            assert words in text
        await press(pilot, "enter", then=lambda: isinstance(app.screen, PoolScreen))


async def test_pools_are_resized_and_limited_from_their_list_too() -> None:
    async with page(name="nodepools") as (app, pilot, session):
        session.answers["scale_between"] = RESIZE
        await until_shown(pilot, "Resize")
        await pilot.press("down")  # the pool of DWS, which sizes it itself
        await until(pilot, lambda: "Resize" not in screen_text(app))
        await press(pilot, "L", then=lambda: isinstance(app.screen, Prompt))
        await press(pilot, *["backspace"] * 3, "0", "space", "4", "enter", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: session.called("scale_between") == [("a4-flex", 0, 4)])
