from hypothesis import given, strategies as st

from console.kube.objects.jobset import JobSet
from console.kube.objects.node import MAX_GPUS_PER_NODE, Node, Provisioning
from console.kube.objects.pod import Pod
from console.scheduling.free_slots import eligible_nodes
from console.scheduling.topology import NO_POOL, GpuState, LargestFree, build_floor, build_pools, host
from tests.fakes import fleet_of

BLOCK, SUBBLOCK = (f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock"))


def node(number: int, block: int = 0, **given_: object) -> Node:
    facts = {
        "pool": "a4", "machine_type": "a4-highgpu-8g", "zone": "us-central1-b", "gpus": 8, "gpu_capacity": 8,
        "ready": True, "block": f"blk-{block}", "subblock": f"sub-{number // 4}", "host": f"host-{number:04}",
    }  # fmt: skip
    return Node(f"n{number:04}", **{**facts, **given_})  # type: ignore[arg-type]


def pod(name: str, on: str, gpus: int = 8, **given_: object) -> Pod:
    facts = {"phase": "Running", "jobset": "train", "jobset_uid": "u1", "job_index": 0}
    return Pod("default", name, uid=name, node=on, gpus=gpus, **{**facts, **given_})  # type: ignore[arg-type]


def test_pips_name_the_jobset_that_holds_them_and_its_owner() -> None:
    train = JobSet("default", "train", "u1", owner="mira")
    made = host(node(1), fleet_of(node(1), train, pod("a", "n0001", 2), pod("b", "n0001", 1, jobset="", jobset_uid="")))
    held = [pip for pip in made.gpus if pip.state is GpuState.HELD]
    assert [(pip.holder.kind, pip.holder.name, pip.holder.owner) for pip in held if pip.holder] == [
        ("Pod", "b", ""), ("JobSet", "train", "mira"), ("JobSet", "train", "mira"),
    ]  # fmt: skip
    assert (made.used, made.free) == (3, 5)


def test_a_host_that_takes_no_pods_has_nothing_free() -> None:
    tired = node(1, cordoned=True)
    made = build_floor([tired], fleet_of(tired, pod("a", "n0001", 2)))
    assert (made.used, made.free, made.out_of_use, made.slots) == (2, 0, 6, 0)


def test_a_lost_gpu_is_out() -> None:
    broken = node(1, gpus=7)
    made = build_floor([broken], fleet_of(broken))
    assert (made.free, made.out_of_use, made.whole_free_gpus, made.slots) == (7, 1, 0, 0)


def test_finished_pods_hold_nothing() -> None:
    made = host(node(1), fleet_of(node(1), pod("a", "n0001", phase="Succeeded")))
    assert made.free == 8


def test_pods_that_ask_for_any_number_of_gpus_are_drawn_within_their_machine() -> None:
    """The number is the person's who creates the pod."""
    small, unknown = node(1), node(2, gpus=0, gpu_capacity=0)
    lies = [pod(f"lie-{number}-{on}", on, 10**18) for number in range(3) for on in ("n0001", "n0002")]
    fleet = fleet_of(small, unknown, *lies, pod("b", "n0001", 2))
    assert host(small, fleet).used == 3 * 8 + 2
    assert host(unknown, fleet).used == MAX_GPUS_PER_NODE


def sixteen() -> list[Node]:
    return [node(number, number // 8) for number in range(16)]


def test_the_largest_free_stretch_of_the_floor() -> None:
    nodes = sixteen()
    busy = [pod(f"p{number}", f"n{number:04}") for number in (0, 1, 2, 4, 8, 9, 10, 11)]
    made = build_floor(nodes, fleet_of(*nodes, *busy))
    assert made.largest == LargestFree("sub-3", 32, 32, 64)
    assert [(block.name, block.slots) for block in made.blocks] == [("blk-0", 4), ("blk-1", 4)]
    assert [(each.name, each.slots) for each in made.subblocks] == [
        ("sub-0", 1), ("sub-1", 3), ("sub-2", 0), ("sub-3", 4),
    ]  # fmt: skip


def test_where_pods_fit_together() -> None:
    nodes = sixteen()
    busy = [pod(f"p{number}", f"n{number:04}") for number in (0, 1, 2, 4, 8, 9, 10, 11)]
    found = eligible_nodes(fleet_of(*nodes, *busy), 8, "")
    assert {name for name, free in found.slots(SUBBLOCK).items() if free >= 3} == {"sub-1", "sub-3"}
    assert {name for name, free in found.slots(BLOCK).items() if free >= 3} == {"blk-0", "blk-1"}
    assert (found.spread(5, BLOCK), found.free) == (2, 8)


def test_nothing_is_free_on_an_empty_floor() -> None:
    made = build_floor([], fleet_of())
    assert (made.largest, made.slots, made.holders) == (LargestFree(), 0, ())


def test_who_holds_most_comes_first() -> None:
    nodes = sixteen()
    busy = [pod("p0", "n0000", jobset="small", jobset_uid="u2"), pod("p1", "n0001"), pod("p2", "n0002")]
    assert [(each.name, gpus) for each, gpus in build_floor(nodes, fleet_of(*nodes, *busy)).holders] == [
        ("train", 16), ("small", 8),
    ]  # fmt: skip


def test_pools_by_label_with_what_they_have() -> None:
    nodes = [
        *(
            node(number, number // 8, provisioning=Provisioning.RESERVATION, reservation="res-1")
            for number in range(16)
        ),
        *(node(100 + n, 9, pool="spot", provisioning=Provisioning.SPOT, zone=f"z{n}") for n in range(2)),
        Node("cpu-1", pool="system", machine_type="e2-standard-8", ready=True),
    ]
    reserved, spot, system = build_pools(fleet_of(*nodes, pod("p", "n0000"), pod("q", "n0100", 4)))
    assert (reserved.name, reserved.reservation, reserved.provisioning) == ("a4", "res-1", Provisioning.RESERVATION)
    assert (reserved.floor.used, reserved.floor.free, reserved.floor.total) == (8, 120, 128)
    assert reserved.floor.slots == 15
    assert (spot.zones, spot.floor.used, spot.floor.slots) == (("z0", "z1"), 4, 1)
    assert (system.name, system.floor.total, system.nodes_ready) == ("system", 0, 1)


def test_faults_and_maintenance_are_named_by_node() -> None:
    nodes = [
        node(1, maintenance_at=99.0),
        node(2, ready=False, not_ready_reason="NodeStatusUnknown"),
        node(3, fault="XID"),
    ]
    (pool,) = build_pools(fleet_of(*nodes))
    assert pool.faults == (("n0002", "NodeStatusUnknown"), ("n0003", "reported faulty: XID"))
    assert [(each.name, each.maintenance_at, each.maintenance_active) for each in pool.maintenance] == [
        ("n0001", 99.0, False)
    ]
    assert (pool.nodes_ready, pool.nodes_total) == (2, 3)


def test_nodes_without_a_pool_go_by_machine_type() -> None:
    found = build_pools(fleet_of(Node("a"), Node("b", machine_type="m1"), Node("c", machine_type="m1"), node(1)))
    assert [(pool.name, pool.is_labelled, pool.nodes_total) for pool in found] == [
        ("a4", True, 1), ("m1", False, 2), (NO_POOL, False, 1),
    ]  # fmt: skip


def test_no_nodes_no_pools() -> None:
    assert build_pools(fleet_of()) == ()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 8), st.integers(0, 2), st.integers(0, 2), st.booleans(), st.sampled_from(["a", "b", ""])
        ),
        max_size=12,
    ),
    st.lists(
        st.tuples(st.integers(0, 11), st.integers(0, 8), st.sampled_from(["Running", "Pending", "Failed"])), max_size=20
    ),
)
def test_pips_always_add_up(machines: list[tuple[int, int, int, bool, str]], busy: list[tuple[int, int, str]]) -> None:
    nodes = [
        node(number, block, gpus=gpus, subblock=f"sub-{sub}", cordoned=shut, pool=pool)
        for number, (gpus, block, sub, shut, pool) in enumerate(machines)
    ]
    pods = [pod(f"p{n}", f"n{on:04}", gpus, phase=phase) for n, (on, gpus, phase) in enumerate(busy)]
    fleet = fleet_of(*nodes, *pods)
    found = build_pools(fleet)
    assert sum(pool.nodes_total for pool in found) == len(nodes)
    for pool in found:
        assert pool.floor.used + pool.floor.free + pool.floor.out_of_use == pool.floor.total
        assert sum(block.total for block in pool.floor.blocks) == pool.floor.total
        assert sum(sub.free for sub in pool.floor.subblocks) == pool.floor.free
        assert sum(gpus for _, gpus in pool.floor.holders) == pool.floor.used
        largest = pool.floor.largest
        assert largest.in_subblock <= largest.in_block <= largest.total <= pool.floor.free
    names = {each.name for each in nodes}
    assert sum(pool.floor.used for pool in found) == sum(each.holds_gpus for each in pods if each.node in names)


@given(st.integers(1, 20), st.sampled_from([1, 2, 4, 8]))
def test_room_in_a_subblock_is_room_in_its_block(pods: int, gpus: int) -> None:
    nodes = sixteen()
    fleet = fleet_of(*nodes, pod("a", "n0000", 3), pod("b", "n0009", 8))
    found = eligible_nodes(fleet, gpus, "")
    owner = {sub.name: block.name for block in build_floor(nodes, fleet).blocks for sub in block.subblocks}
    rooms = [{name for name, free in found.slots(level).items() if free >= pods} for level in (SUBBLOCK, BLOCK)]
    assert {owner[name] for name in rooms[0]} <= rooms[1]
    assert found.free >= pods or not rooms[1]
