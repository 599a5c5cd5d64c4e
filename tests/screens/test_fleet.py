import pytest
from msgspec import structs

from console.kube.objects.node import Node
from console.kube.snapshot import Fleet
from console.logs.log_line import LogLine
from console.scheduling.topology import build_pools
from screens.columns.jobs import JobLine
from screens.columns.nodes import gpu_bar
from screens.dialogs.question import Confirm
from screens.pages.fleet import FleetScreen
from screens.pages.node import NodeScreen, node_facts
from screens.pages.nodepools import PoolScreen
from screens.widgets.floor_map import FloorMap, MapZoom, short_name
from screens.wording import spans_of
from tests.fakes import FakeSession, fleet_of
from tests.screens.press import console, press, screen_of, screen_text, text_of, until, until_shown
from tests.screens.scene import NOW, a4, scene


async def test_pools_with_what_is_free_and_what_is_broken() -> None:
    async with console() as (_, pilot, _):
        await pilot.pause()
        await until_shown(
            pilot,
            "a4-highgpu-8g-a4-pool",
            "80/128",
            "✗ 1 not ready",
            "Largest free: 16 GPUs in sub-3, 24 in one block, 32 in all",
            "■ llama-70b (mira, 64)",
        )


async def test_the_floor_shows_every_host_in_its_place() -> None:
    async with console() as (app, pilot, _):
        await pilot.pause()
        floor = text_of(app.screen.query_one(FloorMap)).splitlines()
        third = next(line for line in floor if "sub-2" in line)
        assert "blk-1" in third
        assert "0008" in third
        assert "⚠■■■■■■■■" in third
        assert "0011  ········" in third
        assert all(any(host in line for line in floor) for host in ("✗✗✗✗✗✗✗✗", "‖‖‖‖‖‖‖‖"))


@pytest.mark.slow(reason="a log is read at the pace at which pages read the ends of logs")
async def test_the_jobs_in_the_pane_are_as_their_logs_say_though_no_other_page_was_opened() -> None:
    session = FakeSession(scene())
    printed = [LogLine(NOW + at, f"step {at}/100 loss {3 - at / 50}") for at in range(1, 41)]
    session.printed |= {("default", "llama-70b-workload-0-0-x7k0"): printed}
    async with console(session, size=(160, 45)) as (_, pilot, _):
        await until_shown(pilot, "jobs on these hosts", "40 %")


async def test_the_pane_works_out_a_running_job_again_only_if_it_has_changed() -> None:
    async with console(size=(160, 45)) as (app, pilot, session):
        await until_shown(pilot, "jobs on these hosts")
        page, job = screen_of(app, FleetScreen), ("default", "llama-70b")

        def line() -> JobLine:
            page.pane_lines(80, 40, NOW)
            return page.running_lines[job]

        before = line()
        assert line() is before
        app.fleet = structs.replace(session.fleet, at=session.fleet.at + 1)
        after = line()
        assert after is not before
        page.running_lines = {job: structs.replace(after, late_message="no longer")}
        assert line().late_message == ""


async def test_arrow_keys_go_from_host_to_host_and_say_what_is_on_them() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("tab", "down", "down", "right", "right")
        await until_shown(pilot, "gke-train-a4-pool-0010", "nccl-0412 pod 1", "maintenance in")
        await press(pilot, "enter", then=lambda: isinstance(app.screen, NodeScreen))
        await press(pilot, "escape", then=lambda: isinstance(app.screen, FleetScreen))
        assert app.screen.query_one(FloorMap).has_focus


async def test_a_key_goes_from_fault_to_fault_and_round_again() -> None:
    async with console(size=(140, 40)) as (app, pilot, session):
        floor = app.screen.query_one(FloorMap)
        assert "n Next fault" in screen_text(app)
        seen = []
        for _ in range(3):
            await press(pilot, "n", then=lambda: floor.has_focus)
            assert floor.hosts
            seen.append(short_name(floor.hosts[0].node.name))
        assert seen == ["0013", "0003", "0013"]
        await until_shown(pilot, "0013  ✗ NodeStatusUnknown")
        well = {key: structs.replace(each, ready=True) for key, each in session.fleet.nodes.items()}
        session.show(nodes=well)
        await until(pilot, lambda: "Next fault" not in screen_text(app))
        await pilot.press("n")
        assert [short_name(host.node.name) for host in floor.hosts] == ["0013"], "the key is gone with the faults"


async def test_a_pool_leads_to_its_nodes_and_a_node_to_its_pods() -> None:
    async with console() as (app, pilot, _):
        await press(pilot, "enter", then=lambda: isinstance(app.screen, PoolScreen))
        await until_shown(pilot, "NodeStatusUnknown")
        await press(pilot, "slash", *"0013", "enter", "enter", then=lambda: isinstance(app.screen, NodeScreen))
        await until_shown(pilot, "Node status is now: NodeNotReady", "No pods on this node.", "train-res")


async def test_cordon_asks_by_name_and_uncordon_takes_its_place() -> None:
    async with console() as (app, pilot, session):
        await press(pilot, "enter", then=lambda: isinstance(app.screen, PoolScreen))
        await press(pilot, "K", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "8 of 8 GPUs in use")
        await press(pilot, "y", then=lambda: session.called("cordon") == [("gke-train-a4-pool-0000", True)])
        screen = screen_of(app, PoolScreen)
        screen.table.move_to(("gke-train-a4-pool-0014",))
        await until_shown(pilot, "Uncordon")
        await press(pilot, "U", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: session.called("cordon")[1:] == [("gke-train-a4-pool-0014", False)])


async def test_of_a_thousand_hosts_each_is_a_mark_until_one_zooms_in() -> None:
    nodes = [a4(number) for number in range(1016)]
    async with console(FakeSession(fleet_of(*nodes))) as (app, pilot, _):
        await pilot.pause()
        floor = app.screen.query_one(FloorMap)
        assert str(floor.zoom) == "host"
        assert text_of(floor).count("····") == 1016 // 4
        assert floor.virtual_size.height <= floor.size.height
        await press(pilot, "tab", "plus", *["down"] * 40, then=lambda: str(floor.zoom) == "GPU")
        assert "0000  ········" not in text_of(floor)
        assert floor.hosts
        assert floor.scroll_offset.y > 0
        await press(pilot, "minus", then=lambda: floor.scroll_offset.y == 0)


async def test_a_wide_terminal_shows_subblocks_beside_each_other() -> None:
    async with console(size=(200, 55)) as (app, pilot, _):
        await pilot.press("z", "z")  # without the pane
        await until(pilot, lambda: app.screen.query_one(FloorMap).size.width > 190)
        floor = text_of(app.screen.query_one(FloorMap)).splitlines()
        first = next(line for line in floor if "sub-0" in line)
        assert first.index("sub-1") == 100 + first.index("sub-0")
        assert "0007  ■■■■■■■■" in first


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize(("per_subblock", "per_block"), [(4, 8), (16, 64), (32, 512)])
async def test_five_thousand_hosts_fit_a_large_terminal(per_subblock: int, per_block: int) -> None:
    nodes = [
        structs.replace(a4(number), block=f"blk-{number // per_block}", subblock=f"sub-{number // per_subblock}")
        for number in range(5000)
    ]
    async with console(FakeSession(fleet_of(*nodes)), size=(200, 50)) as (app, pilot, _):
        await pilot.pause()
        floor = app.screen.query_one(FloorMap)
        assert floor.virtual_size.height <= floor.size.height
        shown = {MapZoom.HOSTS: 5000, MapZoom.SUBBLOCKS: -(-5000 // per_subblock)}[floor.zoom]
        assert "".join(text_of(floor).splitlines()[1:]).count("·") == shown


async def test_a_subblock_is_a_mark_that_tells_the_worst_of_it_and_enter_zooms_in() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("tab", "minus", "minus", "down", "right")
        floor = app.screen.query_one(FloorMap)
        lines = text_of(floor).splitlines()
        assert lines[1].split() == ["blk-0", "▒■", "blk-1", "⚠✗"]
        assert lines[3].split() == ["blk-9", "✗"]
        await pilot.press("up", "left", "right", "right", "right")
        await until_shown(pilot, "sub-3 of blk-1  4 hosts  32 GPUs - 16 out of use = 16 free", "✗ 1 faulty")
        await press(pilot, "enter", then=lambda: str(floor.zoom) == "host")
        assert floor.hosts
        assert floor.hosts[0].node.name == "gke-train-a4-pool-0012"
        assert any("sub-3 ·✗‖·" in line for line in text_of(floor).splitlines())
        await press(pilot, "plus", then=lambda: floor.hosts[0].node.name == "gke-train-a4-pool-0012")
        assert "0012  ········" in text_of(floor)


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize(
    "node", [Node("bare"), Node("", gpus=3, gpu_capacity=8), Node("[b]🚀", gpus=8, block="[x]", pool="[/]")]
)
async def test_nodes_with_hardly_a_field(node: Node) -> None:
    async with console(FakeSession(fleet_of(node))) as (app, pilot, _):
        await press(pilot, "enter", then=lambda: isinstance(app.screen, PoolScreen))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, NodeScreen))


async def test_no_nodes_at_all() -> None:
    async with console(FakeSession(Fleet())) as (_, pilot, session):
        await until_shown(pilot, "No nodes.")
        session.show(scene())
        await until_shown(pilot, "llama-70b")


def test_short_names_tell_neighbours_apart() -> None:
    assert short_name("gke-train-a4-pool-3f2a9b1c-x7kd") == "x7kd"
    assert short_name("a4") == "a4"


def test_a_health_scan_says_when_it_was_and_what_it_is_held_against() -> None:
    node = Node("n1", last_busbw=188.0, scan_result="fail", scanned_at=1_000.0)
    facts = dict(node_facts(node, fleet_of(node), now=1_000.0 + 9 * 3600))
    assert facts["Health scan"] == (
        "188 GB/s fail, 9 h ago: NCCL between two nodes, 2 to 8 GiB; passes from 250 GB/s on A4"
    )
    untold = dict(node_facts(Node("n1", scan_result="pass"), fleet_of(), now=0.0))
    assert str(untold["Health scan"]).startswith("pass, at a time not told: ")
    assert not dict(node_facts(Node("n1"), fleet_of(), now=0.0))["Health scan"]


@pytest.mark.parametrize(
    ("more", "style"), [({"ready": False, "not_ready_since": NOW - 59}, "waits"), ({"cordoned": True}, "waits"),
                      ({"ready": False, "not_ready_reason": "NodeNotReady"}, "bad")],
)  # fmt: skip
def test_gpus_out_of_use_are_red_only_where_a_machine_has_a_fault(more: dict[str, object], style: str) -> None:
    pool = build_pools(fleet_of(a4(0), structs.replace(a4(1), created=NOW - 60, **more)))[0]
    assert [run.style for run in gpu_bar(pool, 30) if "▒" in run.text] == [style]


def test_the_facts_of_a_node_say_maintenance_once() -> None:
    facts = dict(node_facts(a4(0, maintenance_at=NOW + 6 * 3600 + 60), Fleet(), NOW))
    assert spans_of(facts["Maintenance"])[0].text.startswith("in 6 h ")
