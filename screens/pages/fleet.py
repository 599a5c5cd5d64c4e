"""The fleet page: all GPU hardware, what is free, and what is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.google.node_pools import merge_google_pools
from console.kube.objects.event import Event
from console.kube.objects.jobset import JobSet, JobState
from console.kube.snapshot import Fleet, WatchState, per_snapshot
from console.kube.stream_completeness import SERVER_CLOCK
from console.scheduling.pod_slots import pod_slots
from console.scheduling.topology import Holder, Host, Pool, PoolFloor, build_pools, format_gpu_sum
from screens.alarm_toasts import has_changed, live_job_line
from screens.columns.jobs import JobLine
from screens.columns.nodes import POOLS, busbw_words, node_state
from screens.dialogs.pool_actions import PoolsScreen
from screens.list_and_pane import PanedScreen
from screens.widgets.floor_map import PARTLY_USED, FloorMap, MapZoom
from screens.widgets.job_pane import job_entry, pane_entry
from screens.widgets.side_pane import Lines, event_lines
from screens.widgets.styled_text import CutLines, as_last_known
from screens.widgets.table.row_painter import EmptyNotice, cell_width
from screens.widgets.table.table import ResourceTable
from screens.wording import IDLE, OK, Span, count, short_node


class PoolTable(ResourceTable[Pool]):
    LIST = "pools"
    NOUN = "pool"
    EMPTY = EmptyNotice("No nodes.", "Pools that scale from zero have none until a job waits for them.")
    COLUMNS: ClassVar = POOLS.columns

    def row_text(self, row: Pool) -> str:
        return f"{row.name} {row.machine_type} {' '.join(row.zones)} {row.provisioning} {row.reservation}"


def pool_heading(pool: Pool) -> tuple[Span, ...]:
    return (Span(f"{pool.name}   ", "head"), *largest_free_words(pool.floor))


def largest_free_words(floor: PoolFloor) -> list[Span]:
    if not floor.total:
        return []
    largest = floor.largest
    if not largest.total:
        loose = f"; {count(floor.free, 'GPU')} free on shared hosts" if floor.free else ""
        return [Span(f"{format_gpu_sum(floor)}. No host is wholly free{loose}.", "dim")]
    where = f" in {largest.subblock or 'one subblock'}"
    runs = [Span("Largest free: ", "dim"), Span(f"{largest.in_subblock} GPUs", "strong"), Span(where, "dim")]
    if largest.in_block > largest.in_subblock:
        runs += [Span(", ", "dim"), Span(f"{largest.in_block}", "strong"), Span(" in one block", "dim")]
    if largest.total > largest.in_block:
        runs += [Span(", ", "dim"), Span(f"{largest.total}", "strong"), Span(" in all", "dim")]
    return [*runs, Span(f". {format_gpu_sum(floor)}.", "dim")]


@per_snapshot
def last_events(fleet: Fleet) -> list[Event]:
    """The latest events, one for each message, as many jobs wait for one reason."""
    once = {each.message: each for each in sorted(fleet.events.values(), key=lambda each: each.last)}
    return sorted(once.values(), key=lambda each: -each.last)


class FloorKey(CutLines):
    DEFAULT_CSS = "FloorKey { height: 2; }"


LOW_PANE_LINES = 30  # lines of a pane under which its entries have one each
CELLS_PER_HOST = 230  # cells of the terminal for each host from which on the map has room beside a pane


class FleetScreen(PanedScreen, PoolsScreen):
    CSS_PATH = "fleet.tcss"
    KINDS = ("nodes", "pods")
    ROW_PAGE = "pool"
    RIGHT = 150
    PANE_TAKES_LINES = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Floor / pools", id="fleet.other", tooltip="Between the list and the floor"),
        Binding("a", "google", "All pools", id="fleet.google",
                tooltip="Also the pools without a machine now, and what Google does to each: asks Google"),
        Binding("n", "next_fault", "Next fault", id="fleet.fault",
                tooltip="To the next faulty host of the floor: what is wrong with it stands below"),
        Binding("m,at", "my_jobs", "My jobs", id="fleet.my-jobs", tooltip="The list of what you launched"),
        Binding("plus,equals_sign", "zoom(-1)", "Zoom", id="fleet.in", key_display="+",
                tooltip="A mark of the map is a GPU, a host or a subblock: the first that fits, or what you choose"),
        Binding("minus", "zoom(1)", "Zoom out", show=False, id="fleet.out", key_display="-"),
    ]  # fmt: skip
    table = getters.query_one(PoolTable)
    map = getters.query_one(FloorMap)
    key = getters.query_one(FloorKey)

    def body(self) -> ComposeResult:
        yield PoolTable()
        yield from self.beside_pane(FloorMap())
        yield FloorKey()

    def on_mount(self) -> None:
        self.follow_jobs(lambda: self._pane_job_keys, lambda: bool(self._pane_job_keys))

    _pane_job_keys: Sequence[tuple[str, str]] = ()
    """Keys of the jobs in the pane, whose progress is followed; empty without a pane."""
    running_lines: Mapping[tuple[str, str], JobLine] = {}
    """The rows of running jobs from the last drawing; unchanged ones are used again with their computed values."""

    def room_beside(self, width: int, height: int) -> int:
        """The columns free beside the map; 0 if a pane there would make the map smaller."""
        return super().room_beside(width, height) if self._host_count <= width * height // CELLS_PER_HOST else 0

    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        """Hosts with something wrong, the jobs on the hosts, and those that wait for GPUs."""
        fleet, found, low = self.app.fleet, list[Lines](), height < LOW_PANE_LINES
        odd: Lines = []
        for host in (host for pool in self._floors for host in pool.floor.hosts):
            state = node_state(host.node, now)
            names = dict.fromkeys(pip.holder.name for pip in host.gpus if pip.holder)
            held = [Span(f"holds {', '.join(names)}", "dim")] if names else []
            if state[0] != OK:
                odd += pane_entry([Span(short_node(host.node.name), "strong")], [*state, *held], "", width, low=low)
        found.append([[Span("hosts to look at", "head")], *odd, []] if odd else [])
        jobs = [job for job in fleet.jobsets.values() if not job.finished]
        wait = sorted((job for job in jobs if job.state is JobState.PENDING), key=lambda job: (-job.created, job.key))
        run = [self._line_of(job, fleet) for job in jobs if job.state is not JobState.PENDING]
        self.running_lines = {line.jobset.key: line for line in run}
        running = sorted(run, key=lambda line: line.sort_key)[:height]
        waiting = [live_job_line(self.app, job, fleet) for job in wait[:height]]
        self._pane_job_keys = [line.jobset.key for line in (*running, *waiting)]
        for title, these in (("jobs on these hosts", running), ("wait for GPUs", waiting)):
            lines = [
                each for line in these for each in job_entry(line, self._mark_of(line.jobset), now, width, low=low)
            ]
            found.append([[Span(title, "head")], *lines, []] if lines else [])
        return [line for lines in found for line in lines]

    def _line_of(self, job: JobSet, fleet: Fleet) -> JobLine:
        line = self.running_lines.get(job.key)
        stays = line is not None and line.fleet is fleet and not has_changed(self.app, line)
        return line if line is not None and stays else live_job_line(self.app, job, fleet)

    def under_lines(self, width: int, height: int, now: float) -> Lines:
        return event_lines(last_events(self.app.fleet), now, width, height, are_named=True)[1:]

    def _mark_of(self, job: JobSet) -> Span:
        return IDLE if job.state is JobState.PENDING else Span(self.map.glyph(job.uid), self.app.job_style(job.uid))

    def show_fleet(self, fleet: Fleet) -> None:
        seen = self.session.google.node_pools.last_snapshot if self.pools is None and self.app.connected else None
        if seen is not None:  # another screen has asked already: nothing new is loaded
            self.pools = seen
            self.action_google()
        if self.pools is not None and self.app.connected:
            self.pools = self.session.google.node_pools.with_current_nodes(self.pools)
        found = merge_google_pools(build_pools(fleet), self.pools)
        self.table.styles.height = max(2, min(len(found) + 1, self.size.height // 3)) if found else 4
        self.table.show_rows({(pool.name,): pool for pool in found}, fleet.links.get("nodes"))
        self._floors = [pool for pool in found if pool.floor.total]
        held: Counter[Holder] = Counter()
        for pool in self._floors:
            held.update(dict(pool.floor.holders))
        self._holders = sorted(held.items(), key=lambda each: (-each[1], each[0].key))
        stale = any(link.state is WatchState.STALE for link in self.links(fleet))
        headings = [as_last_known(pool_heading(pool)) if stale else pool_heading(pool) for pool in self._floors]
        floors = [pool.floor for pool in self._floors]
        self.map.show_floors(list(zip(headings, floors, strict=True)), self.app.job_style)
        self._host_count = sum(len(floor.hosts) for floor in floors)
        self.redraw_pane()

    _is_asking_google = False
    _offered: Mapping[str, object] = {}  # keys that come and go, as they were shown last time

    def offers(self) -> dict[str, object]:
        faults = any(host.faults for pool in self._floors for host in pool.floor.hosts)
        return {"google": self._should_read_pools(), "next_fault": faults}

    def _should_read_pools(self) -> bool:
        """Whether to read node pools from Google: the cluster has some, and they were not read yet."""
        known = self.pools is not None or self._is_asking_google
        return not known and any(node.pool for node in self.app.fleet.nodes.values())

    def action_next_fault(self) -> None:
        self.map.go_to_next_fault()

    async def action_my_jobs(self) -> None:
        from screens.pages.jobs import JobsScreen

        await self.app.action_switch_mode("jobs")
        if isinstance(self.app.screen, JobsScreen):
            self.app.screen.show_mine()

    def action_zoom(self, step: int) -> None:
        self.map.change_zoom(step)

    def action_google(self) -> None:
        if self.app.connected:
            self._is_asking_google = self.pools is None
            self._show_key()
            super().poll_again()

    def poll_again(self) -> None:
        if self.pools is not None:  # it was asked for
            super().poll_again()

    def on_screen_suspend(self) -> None:
        self._is_asking_google = False

    def pools_answered(self) -> None:
        self._is_asking_google = False
        self.show_fleet(self.app.fleet)

    def pools_refused(self, error: ConsoleError) -> None:
        self._is_asking_google = False
        if self.pools is None:
            self._show_key()
            self.notify(str(error), title="Google's pools are not known", severity="error")
            self.workers.cancel_group(self, "google")

    _floors: Sequence[Pool] = ()
    _host_count = 0
    _holders: Sequence[tuple[Holder, int]] = ()

    @on(ResourceTable.Highlighted)
    def _show_pool(self) -> None:
        pool = self.table.row
        if pool in self._floors and not self.map.has_focus:
            self.map.move_to(self._floors.index(pool))
        self._show_key()

    @on(FloorMap.Moved)
    def _show_key(self) -> None:
        if self.offers() != self._offered:
            self._offered = self.offers()
            self.refresh_bindings()
        jobs = [] if self.has_class("-right") else [tuple(self._holders_legend(self._holders, self.size.width - 4))]
        self.key.styles.height = 1 + len(jobs)
        self.key.lines = (*jobs, tuple(self._pool_details()))

    def _holders_legend(self, holders: Sequence[tuple[Holder, int]], width: int) -> list[Span]:
        """One line with the GPU holders and their owners, most GPUs first; those that do not fit are counted."""
        runs: list[Span] = []
        left = width
        for number, (holder, gpus) in enumerate(holders):
            owner = f"{self.app.format_owner(holder.owner)}, " if holder.owner else ""
            entry = [
                Span(f"{self.map.glyph(holder.uid)} ", self.app.job_style(holder.uid)),
                Span(holder.name, "text"),
                Span(f" ({owner}{gpus})   ", "dim"),
            ]
            need = cell_width(entry)
            rest = len(holders) - number
            if need > left - (12 if rest > 1 else 0):
                return [*runs, Span(f"+ {rest} more", "dim")]
            runs += entry
            left -= need
        return runs

    def _pool_details(self) -> list[Span]:
        hosts = self.map.hosts if self.map.has_focus else ()
        if hosts:
            return self._about_subblock(hosts) if self.map.zoom is MapZoom.SUBBLOCKS else self._about_host(hosts[0])
        marks = (
            ("✗", "bad", "faulty"),
            ("⚠", "waits", "maintenance"),
            ("‖", "waits", "cordoned"),
            ("◐", "waits", "starting"),
        )
        runs = [Span("◐ asking Google for all pools …   ", "waits")] if self._is_asking_google else []
        partly = "" if self.map.zoom is MapZoom.GPUS else f"{PARTLY_USED} partly used  "
        runs.append(Span(f"■ a {self.map.zoom} of a job  {partly}· free  ", "dim"))
        for glyph, style, word in marks:
            runs += [Span(glyph, style), Span(f" {word}  ", "dim")]
        bars = [] if partly else [Span("▒", "waits"), Span(" out of use", "dim")]
        return [*runs, *bars] if cell_width([*runs, *bars]) <= self.size.width - 4 else runs

    def _about_subblock(self, hosts: tuple[Host, ...]) -> list[Span]:
        group = PoolFloor(hosts[0].node.subblock, hosts)
        runs = [
            Span(f"{group.name or 'no subblock'} ", "strong"),
            Span(f"of {hosts[0].node.block or 'no block'}  "),
            Span(f"{count(len(hosts), 'host')}  {format_gpu_sum(group)}  ", "dim"),
        ]
        faulty = sum(bool(host.faults) for host in hosts)
        maintained = sum(bool(host.node.maintenance_active or host.node.maintenance_at) for host in hosts)
        runs += [Span(f"✗ {faulty} faulty  ", "bad")] if faulty else []
        runs += [Span(f"⚠ {maintained} with maintenance  ", "waits")] if maintained else []
        return [*runs, *self._holders_legend(group.holders, self.size.width)]

    def _about_host(self, host: Host) -> list[Span]:
        node, fleet = host.node, self.app.fleet
        runs = [Span(f"{node.name}  ", "strong"), *node_state(node, SERVER_CLOCK.now()), Span("  ")]
        for pod in fleet.pods_by_node.get(node.name, ()):
            jobset = fleet.jobset_by_uid.get(pod.jobset_uid)
            if pod.holds_gpus and jobset is not None:
                number = next((f" pod {each.number}" for each in pod_slots(jobset, fleet) if each.pod is pod), "")
                mark = Span(self.map.glyph(jobset.uid), self.app.job_style(jobset.uid))
                runs += [mark, Span(f" {jobset.name}{number}  ")]
            elif pod.holds_gpus:
                runs += [Span(f"{pod.name}  ")]
        measured = busbw_words(self.bandwidth_of_nodes().get(node.name), SERVER_CLOCK.now())
        if measured:
            runs += [*measured, Span("  ")]
        elif node.last_busbw is not None:
            runs.append(Span(f"health scan {node.last_busbw:.0f} GB/s  ", "dim"))
        taints = [taint for taint in node.taints if not taint.startswith("nvidia.com/gpu")]
        return [*runs, Span(f"taints {', '.join(taints)}" if taints else "", "dim")]

    @on(FloorMap.Opened)
    def _open_node(self, event: FloorMap.Opened) -> None:
        self.app.open_page("node", event.node)
