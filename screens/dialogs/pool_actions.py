"""The actions on node pools and nodes, each with confirmation: resize, limits, report, cordon."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from console.errors import BadInput, ConsoleError
from console.google.clusters import GkeOperation
from console.google.node_pools import PoolsSnapshot, PoolStatus
from console.kube.objects.node import Node
from console.session import Session
from screens.dialogs.question import Confirm, Pick, PickEntry, Prompt
from screens.live_screen import LiveScreen
from screens.wording import count, short_node


class NodeActions(LiveScreen):
    CHANGES_CLUSTER = frozenset({"cordon", "uncordon"})
    SUBJECT = LiveScreen.SUBJECT | {"node"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K", "cordon", "Cordon", key_display="K", id="nodes.cordon",
                tooltip="Cordon: no new pods here; running pods stay. Asks first"),
        Binding("U", "uncordon", "Uncordon", key_display="U", id="nodes.uncordon",
                tooltip="Uncordon: new pods may be scheduled here again. Asks first"),
        Binding("y", "yaml", "YAML", id="nodes.yaml", tooltip="The object as the API server has it"),
        Binding("c", "copy", "Copy name", show=False, id="nodes.copy", tooltip="To the clipboard (OSC 52)"),
    ]  # fmt: skip

    @property
    @abstractmethod
    def node_names(self) -> list[str]:
        """The names of the nodes that an action would apply to."""

    def nodes(self) -> list[Node]:
        nodes = self.app.fleet.nodes
        return [nodes["", name] for name in self.node_names if ("", name) in nodes]

    def subject(self) -> dict[str, str]:
        return {**super().subject(), "node": next(iter(self.node_names), "")}

    def offers(self) -> dict[str, object]:
        closed = {node.cordoned for node in self.nodes()}
        return super().offers() | {"cordon": False in closed, "uncordon": True in closed}

    def action_yaml(self) -> None:
        for node in self.nodes()[:1]:
            self.app.open_page("object_yaml", "Node", "", node.name)

    def action_copy(self) -> None:
        if names := self.node_names:
            self.copy(names, "names")

    def action_cordon(self) -> None:
        self.set_cordon([node for node in self.nodes() if not node.cordoned], is_cordoned=True)

    def action_uncordon(self) -> None:
        self.set_cordon([node for node in self.nodes() if node.cordoned], is_cordoned=False)

    @work(group="actions")
    async def set_cordon(self, nodes: list[Node], *, is_cordoned: bool) -> None:
        await cordon_nodes(self, [node.name for node in nodes], on=is_cordoned)


async def cordon_nodes(screen: LiveScreen, names: Sequence[str], *, on: bool = True, reason: str = "") -> None:
    """Cordon or uncordon these nodes after confirmation; `reason`, if any, stays with the nodes. In a worker."""
    verb = "Cordon" if on else "Uncordon"
    one = len(names) == 1
    title = f"{verb} {names[0]}?" if one else f"{verb} {len(names)} nodes?"
    stays = "No new pods are scheduled here; running pods stay." if on else "New pods may be scheduled here again."
    why = [f"The reason stays with it: {reason}"] if reason else []
    uses = (f"{'' if one else f'{short_node(name)}: '}{_gpu_use_text(screen, name)}" for name in names)
    lines = [*uses, " ", stays, *why]
    if not await screen.app.push_screen_wait(Confirm(title, lines, verb=verb, keep="Leave")):
        return
    for name in names:
        with screen.report_errors(f"Could not {verb.lower()} {name}"):
            await screen.session.watch.cordon(name, is_cordoned=on, reason=reason)
            screen.notify(f"{name} is {'cordoned' if on else 'uncordoned'}.", timeout=3, markup=False)


def _gpu_use_text(screen: LiveScreen, name: str) -> str:
    node, used = screen.app.fleet.nodes.get(("", name)), screen.app.fleet.gpus_used.get(name, 0)
    return f"{used} of {count(node.gpus, 'GPU')} in use" if node is not None and node.gpus else "no GPUs"


async def report_host(screen: LiveScreen, node: Node, *, reason: str = "") -> bool:
    """Report a node's host to Google as faulty, if confirmed; returns whether it was. BadInput for a wrong name."""
    from console.google.node_pools import HOST_FAULTS

    choices = [PickEntry(fault, words) for fault, words in HOST_FAULTS.items()]
    fault = await screen.app.push_screen_wait(Pick(f"What is wrong with the host of {node.name}?", choices))
    if not fault:
        return False
    pods = [pod for pod in screen.app.fleet.pods_by_node.get(node.name, ()) if not pod.finished]
    lost = await screen.session.launch.unsaved.list_unsaved(node.name)
    question = (
        f"{node.name} goes out of service: {count(len(pods), 'pod')} on it {'is' if len(pods) == 1 else 'are'} "
        "evicted, its local disks are wiped, and another machine of the reservation takes its place in 10 to 12 "
        "minutes. The repair takes 3 to 14 days; Google limits the number of reports per reservation."
        f"{''.join(f' Lost of {each}.' for each in lost)}"
    )
    typed = await screen.app.push_screen_wait(Prompt(question, hint="Type the node's name to report it; Esc cancels."))
    if not typed:
        return False
    if typed != node.name:
        raise BadInput(f"{typed} is not {node.name}; nothing was reported.")
    await screen.session.google.node_pools.report_fault(node.name, fault)
    if reason and not node.cordoned:
        await screen.session.watch.cordon(node.name, reason=reason)
    screen.notify(f"{node.name} is reported: {fault}. Its row shows the progress.", timeout=5, markup=False)
    return True


class PoolsScreen(LiveScreen):
    """A page that polls Google's data on the node pools while it is visible."""

    pools: PoolsSnapshot | None = None  # Google's last answer
    _polled_session: Session | None = None

    def poll_again(self) -> None:
        """Poll Google at once and from then on."""
        if self.app.connected:
            self._polled_session = self.session
            self._follow_pools(self.session)

    @work(group="google", exclusive=True)
    async def _follow_pools(self, session: Session) -> None:
        async for found in session.google.node_pools.follow_snapshots():
            if isinstance(found, ConsoleError):
                self.pools_refused(found)
            else:
                self.pools = found
                self.pools_answered()

    @abstractmethod
    def pools_answered(self) -> None: ...

    @abstractmethod
    def pools_refused(self, error: ConsoleError) -> None: ...

    def tick(self) -> None:
        super().tick()
        if self._polled_session is not None and self.app.connected and self._polled_session is not self.session:
            self.poll_again()

    def on_screen_suspend(self) -> None:
        self.workers.cancel_group(self, "google")

    def on_screen_resume(self) -> None:
        if self.is_mounted:
            self.poll_again()


class PoolSizes(PoolsScreen):
    """A page with a selected node pool, which can be resized."""

    CHANGES_CLUSTER = frozenset({"resize", "limits"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "resize", "Resize", key_display="R", id="pool.resize", tooltip="Resize this pool. Asks first"),
        Binding("L", "limits", "Limits", key_display="L", id="pool.limits", tooltip="Autoscaling limits; asks first"),
    ]

    @property
    @abstractmethod
    def pool_status(self) -> PoolStatus | None:
        """The state of the selected node pool as Google reports it; None while unknown."""

    def offers(self) -> dict[str, object]:
        """By action whether it is available: a pool can be resized unless DWS sizes it."""
        facts = self.pool_status
        sized = facts and not (facts.pool.queued or facts.pool.flex_start)
        return super().offers() | {"resize": sized, "limits": facts}

    @work(group="actions")
    async def action_resize(self) -> None:
        facts = self.pool_status
        if facts is None:
            return
        name, zones = facts.pool.name, len(facts.pool.zones)
        now = facts.target_size if facts.target_size is not None else facts.nodes
        each = now // max(1, zones)
        where = f" in each of its {zones} zones" if zones > 1 else ""
        text = await self.app.push_screen_wait(
            Prompt(f"Resize {name} to how many nodes{where}? Its target size is {each} now.", str(each))
        )
        if not text:
            return
        with self.report_errors(f"Could not resize {name}"):
            if not text.isdecimal():
                raise BadInput(f"{text!r} is not a number of nodes.", "Give a whole number, 0 or more.")
            wanted = int(text)
            if wanted == each:
                self.notify(f"{name} has {count(each, 'node')} already.", timeout=3, markup=False)
                return
            lines = [*facts.resize_losses(wanted * max(1, zones)), *self._autoscaling_lines(facts, wanted)]
            if wanted > each:
                lines.append("The reservation or the zone must have enough capacity: else the resize stops part-way.")
            title = f"Resize {name} from {each} to {count(wanted, 'node')}{where}?"
            if await self.app.push_screen_wait(Confirm(title, lines, verb="Resize", keep="Leave")):
                self._show_operation(await self.session.google.node_pools.resize(name, wanted))

    def _autoscaling_lines(self, status: PoolStatus, size: int) -> list[str]:
        if not status.pool.autoscaling:
            return []
        outside = not status.pool.least <= size <= status.pool.most
        follows = ": it would undo this." if outside else ", and may change it again."
        return [f"Its autoscaler keeps it at {status.limits} nodes{follows}"]

    @work(group="actions")
    async def action_limits(self) -> None:
        facts = self.pool_status
        if facts is None:
            return
        name = facts.pool.name
        now = f"{facts.pool.least} {facts.pool.most}" if facts.pool.autoscaling else ""
        hint = "Minimum and maximum over all zones; 0 0 turns autoscaling off. Enter confirms, Esc cancels."
        question = f"Autoscaling limits of {name}?"
        text = await self.app.push_screen_wait(Prompt(question, now, hint=hint))
        if not text:
            return
        with self.report_errors(f"Could not set the limits of {name}"):
            words = text.replace("to", " ").replace(",", " ").split()
            if len(words) != 2 or not all(word.isdecimal() for word in words):
                raise BadInput(f"{text!r} are not valid limits.", "Give two whole numbers, the smaller first: 2 8.")
            least, most = int(words[0]), int(words[1])
            title = f"Let the autoscaler keep {name} between {least} and {count(most, 'node')}?"
            lines = ["Idle nodes above the minimum are removed after ten minutes."]
            if most == 0:
                title, lines = f"Turn autoscaling of {name} off?", ["The pool keeps the size it has."]
            if await self.app.push_screen_wait(Confirm(title, lines, verb="Set", keep="Leave")):
                self._show_operation(await self.session.google.node_pools.scale_between(name, least, most))

    def _show_operation(self, operation: GkeOperation) -> None:
        words = f"Google has started the operation; a row here shows its progress ({operation.name})."
        self.notify(words, timeout=4, markup=False)
        self.poll_again()
