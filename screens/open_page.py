"""The pages that are opened by name, each imported when it is first opened, and the keys of those about no object."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from textual.binding import Binding

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.screen import Screen

PAGE_NAMES = ("pool", "node", "pod", "log", "job", "manifest", "facts", "doctor", "run", "release", "leftovers",
              "alarms", "clusters", "nodepools", "preflight", "images", "build", "storage", "bucket",
              "folder")  # fmt: skip


def page(place: str) -> Callable[..., Screen[Any]]:
    """Makes the screen at "module:Class", imported only when it is first opened: the start pays for one screen."""
    module, _, name = place.partition(":")

    def made(*about: object) -> Screen[Any]:
        screen: Screen[Any] = getattr(import_module(module), name)(*about)
        return screen

    return made


PAGES: dict[str, Callable[..., Screen[Any]]] = {
    name: page(f"screens.pages.{name}:{name.title()}Screen") for name in PAGE_NAMES
}
PAGE_KEYS = (
    Binding("P", "open_page('preflight')", "Preflight", show=False, key_display="P", id="app.preflight",
            tooltip="What a launch needs of cluster and project, checked together"),
    Binding("ctrl+g", "open_page('clusters')", "Google's clusters", show=False, id="app.clusters"),
    Binding("I", "open_page('images')", "Images and builds", show=False, key_display="I", id="app.images",
            tooltip="Image builds as they run, and what the registries hold"),
    Binding("B", "open_page('storage')", "Buckets and storage", show=False, key_display="B", id="app.storage",
            tooltip="Buckets, Lustre and Filestore around the cluster; results and checkpoints in buckets"),
)  # fmt: skip
