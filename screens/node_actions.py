"""What can be done with nodes: cordon and uncordon, each after a question that names them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType

from screens.base import LiveScreen
from screens.modals.confirm import Confirm
from screens.wording import count

if TYPE_CHECKING:
    from console.models.node import Node


class NodeActions(LiveScreen):
    """A screen with nodes to choose from."""

    CHANGES_CLUSTER = frozenset({"cordon", "uncordon"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K", "cordon", "Cordon", key_display="K", id="nodes.cordon",
                tooltip="No new pods here; what runs goes on. Asks first"),
        Binding("U", "uncordon", "Uncordon", key_display="U", id="nodes.uncordon",
                tooltip="Let pods come here again. Asks first"),
        Binding("y", "yaml", "YAML", id="nodes.yaml", tooltip="The object as the API server has it"),
        Binding("c", "copy", "Copy name", show=False, id="nodes.copy", tooltip="To the clipboard (OSC 52)"),
    ]  # fmt: skip

    @property
    @abstractmethod
    def node_names(self) -> list[str]:
        """Names of the nodes an action is about, at this moment."""

    def nodes(self) -> list[Node]:
        """The nodes an action is about."""
        nodes = self.app.fleet.nodes
        return [nodes["", name] for name in self.node_names if ("", name) in nodes]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Cordon what is open, uncordon what is not."""
        if action in {"cordon", "uncordon"} and not any(n.cordoned == (action == "uncordon") for n in self.nodes()):
            return False
        return super().check_action(action, parameters)

    def action_yaml(self) -> None:
        """Open its YAML."""
        for node in self.nodes()[:1]:
            self.app.open_page("manifest", "Node", "", node.name)

    def action_copy(self) -> None:
        """Its name, to the clipboard."""
        names = self.node_names
        if names:
            self.app.copy_to_clipboard("\n".join(names))
            copied = names[0] if len(names) == 1 else count(len(names), "name")
            self.notify(f"Copied {copied}.", timeout=2, markup=False)

    def action_cordon(self) -> None:
        """Ask, then cordon."""
        self.set_cordon([node for node in self.nodes() if not node.cordoned], on=True)

    def action_uncordon(self) -> None:
        """Ask, then uncordon."""
        self.set_cordon([node for node in self.nodes() if node.cordoned], on=False)

    @work(group="actions")
    async def set_cordon(self, nodes: list[Node], *, on: bool) -> None:
        """Cordon or uncordon these nodes, if the answer is yes."""
        verb = "Cordon" if on else "Uncordon"
        title = f"{verb} {nodes[0].name}?" if len(nodes) == 1 else f"{verb} {len(nodes)} nodes?"
        lines = [f"{node.name}: {self._held(node)}" for node in nodes]
        lines += [" ", "No new pods come here; what runs goes on." if on else "New pods may come here again."]
        if not await self.app.push_screen_wait(Confirm(title, lines, verb=verb, keep="Leave")):
            return
        for node in nodes:
            with self.report_errors(f"Could not {verb.lower()} {node.name}"):
                await self.session.cordon(node.name, on=on)
                self.notify(f"{node.name} is {'cordoned' if on else 'open'}.", timeout=3, markup=False)

    def _held(self, node: Node) -> str:
        used = self.app.fleet.gpus_used.get(node.name, 0)
        return f"{used} of {count(node.gpus, 'GPU')} in use" if node.gpus else "no GPUs"
