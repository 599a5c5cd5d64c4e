"""The command palette: keys that work here, and all pages and objects, found by name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from textual import events, on
from textual.command import Command, CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import FuzzySearch
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from console.errors import ConsoleError
from screens.session_app import SessionApp
from screens.wording import ALL_NAMESPACES

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from console.launch.recipes import Recipe
    from console.launch.run_record import RunRecord

MAX_RECENT = 6
"""Maximum number of recently chosen commands, which are listed first."""
NAME_COLUMNS = 34  # columns of a command's name
GO_TO = "Go to "
HIDDEN = frozenset({"app.command_palette", "command_palette", "app.commands"})


class NameProvider(Provider):
    """A source of palette commands that are found by name, with the matched letters marked."""

    def _highlight_match(self, name: str, positions: Iterable[int]) -> Content:
        content = Content(name)
        for at in positions:
            content = content.stylize(self.match_style or "reverse", at, at + 1)
        return content


class ActiveBindings(NameProvider):
    """The commands of the palette that are bindings of the screen below it, each once."""

    async def discover(self) -> Hits:
        for node, action, name, help_text in self._iter_commands():
            yield DiscoveryHit(name, partial(self._run_binding, node, action), help=help_text)

    async def search(self, query: str) -> Hits:
        for node, action, name, help_text in self._iter_commands():
            found = match_offsets(query, name)
            if found or match_offsets(query, help_text):
                score = match_score(query, name, found) or 1.0
                yield Hit(
                    score, self._highlight_match(name, found), partial(self._run_binding, node, action), help=help_text
                )

    def _iter_commands(self) -> Iterator[tuple[DOMNode, str, str, str]]:
        seen: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            moves = isinstance(active.node, Widget) and not isinstance(active.node, Screen) and not active.tooltip
            if not binding.description or binding.action in {*seen, *HIDDEN} or binding.system or not active.enabled:
                continue
            if moves and not binding.show:
                continue  # arrow keys are no commands
            page = binding.description.casefold()
            if page in PAGE_TARGETS and binding.action in {f"switch_mode('{page}')", f"open_page('{page}')"}:
                continue  # "Go to" that page is offered
            seen.add(binding.action)
            key = self.app.get_key_display(binding)
            help_text = f"{active.tooltip} ({key})" if active.tooltip else f"Key {key}"
            yield active.node, binding.action, binding.description, help_text
        for key, bindings in self.app._bindings.key_to_bindings.items():
            taken = self.screen.active_bindings.get(key)
            for binding in bindings if taken is not None and taken.node is not self.app else ():
                if binding.action.startswith("switch_mode("):
                    continue  # "Go to" that page is offered
                if binding.action not in seen | HIDDEN and binding.tooltip and binding.id:  # the console's own
                    yield self.app, binding.action, binding.description, binding.tooltip
        yield self.app, "settings", "Settings", "Where your config.toml is, and what may stand in it"

    async def _run_binding(self, node: DOMNode, action: str) -> None:
        await self.app.run_action(action, node)


class PageTarget(NamedTuple):
    what: str  # is on the page
    words: str  # that open it, the shortest are those of k9s
    title: str = ""  # where its name is not what it is called


PAGE_TARGETS = {
    "fleet": PageTarget(
        "pools and their hosts: GPUs in use and free, faults, maintenance", "fleet nodes node no pools"
    ),
    "queues": PageTarget(
        "quota, who holds it, and who waits for what", "queues queue q clusterqueues cq localqueues lq workloads wl"
    ),
    "jobs": PageTarget("jobs that run, wait or have ended, and why", "jobs job jobsets jobset js"),
    "pods": PageTarget("pods of all jobs, and what keeps them from running", "pods pod po"),
    "launch": PageTarget("a form for each recipe, checked as you type", "launch recipes new"),
    "runs": PageTarget("what was launched from this machine, and how it ended", "runs run history"),
    "tunnels": PageTarget("ports of this machine that lead to pods", "tunnels tunnel portforwards pf"),
    "alarms": PageTarget("the last alarms of all jobs that are watched", "alarms alarm"),
    "preflight": PageTarget("what a launch needs of cluster and project, checked together", "preflight checks"),
    "images": PageTarget("image builds as they run, and what the registries hold", "images image builds"),
    "storage": PageTarget("buckets and file systems around the cluster", "storage buckets"),
    "nodepools": PageTarget(
        "node pools as Google has them, and running operations", "nodepools operations np ops", "node pools"
    ),
    "context": PageTarget("another cluster of the kubeconfig", "context contexts ctx"),
    "namespace": PageTarget("lists of one namespace, or of all", "namespace namespaces ns"),
}
PAGES_BY_NAMESPACE = ("queues", "jobs", "pods")  # pages whose name may be followed by a namespace
MAX_HITS_PER_KIND = 8  # objects of one kind that are offered
HitKind = tuple[str, float, Collection[tuple[str, ...]], Callable[..., object]]
"""A kind of palette targets: (name, weight, keys that end with the object's name, function that opens an object)."""
TEXTUAL_DELAY_SECONDS = 0.3  # seconds after which Textual shows all that was found so far, when it gets one more
MAX_NAMES_MATCHED = 500  # names of one kind that are weighed; those come first that contain what was typed


def title_of(page: str) -> str:
    return PAGE_TARGETS[page].title or page


class PaletteTargets(NameProvider):
    """Finds pages, jobs, pods, nodes, queues, runs and recipes by name in the command palette."""

    _run_records: tuple[RunRecord, ...] = ()
    _recipes: tuple[Recipe, ...] = ()
    _reading: asyncio.Task[None] | None = None

    @property
    def console(self) -> SessionApp:
        return cast(SessionApp, self.app)

    async def startup(self) -> None:
        """Begin to read runs and recipes when the palette opens, without waiting for them."""
        self._reading = asyncio.create_task(self._read_files())

    async def _read_files(self) -> None:
        if self.console.connected:
            with suppress(ConsoleError):  # what cannot be read is named on its own page
                self._run_records = await self.console.session.launch.runs.list_runs()
                self._recipes = await asyncio.to_thread(lambda: self.console.session.launch.catalogue.recipes())

    async def shutdown(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def discover(self) -> Hits:
        for page, target in PAGE_TARGETS.items():
            yield DiscoveryHit(f"Go to {title_of(page)}", partial(self._open_page, page), help=target.what)

    async def search(self, query: str) -> Hits:
        hits = list(self._known_hits(query))
        for hit in hits[:-1]:
            yield hit
        if self._reading is not None and not self._reading.done():
            await asyncio.wait({self._reading}, timeout=TEXTUAL_DELAY_SECONDS)
        for hit in hits[-1:]:
            yield hit
        if self._reading is not None:
            await asyncio.shield(self._reading)
        for hit in self._iter_hits(query, self._read_objects()):
            yield hit

    def _known_hits(self, query: str) -> Iterator[Hit]:
        """The hits among objects that are already in memory."""
        word, *namespaces = query.casefold().split()
        wanted = " ".join(namespaces)
        for what, name in self._iter_switches() if namespaces else ():
            target = PAGE_TARGETS[what]
            if word in target.words.split() and (found := match_offsets(wanted, name)):
                score = 1000.0 + match_score(wanted, name, found)
                pick = partial(self.console.run_action, ("app", "pick", (what, name)))
                yield Hit(score, f"Go to {what} {name}", pick, help=target.what)
        for page, target in PAGE_TARGETS.items():
            names = target.words.split()
            title = title_of(page)
            if namespaces and title.startswith(f"{word} {wanted}"):
                yield Hit(1000.0, f"Go to {title}", partial(self._open_page, page), help=target.what)
            if namespaces and not (word in names and page in PAGES_BY_NAMESPACE and len(namespaces) == 1):
                continue
            if any(name.startswith(word) for name in names):
                where = f" in {namespaces[0]}" if namespaces else ""
                score = 1000.0 if word in names else 2.0 * len(word)
                yield Hit(score, f"Go to {title}{where}", partial(self._open_page, page, *namespaces), help=target.what)
        yield from self._iter_hits(query, self._list_targets())

    def _iter_hits(self, query: str, objects: Iterable[HitKind]) -> Iterator[Hit]:
        for kind, weight, keys, opened in objects:
            named = ((key, match_offsets(query, key[-1])) for key in _filter_by_words(query, keys))
            scored = [(match_score(query, key[-1], found), key, found) for key, found in named if found]
            for score, key, found in sorted(scored, key=lambda each: -each[0])[:MAX_HITS_PER_KIND]:
                first = 100.0 if query.casefold() in key[-1].casefold() else 0.0
                yield Hit(
                    (first + score) * weight, self._highlight_match(key[-1], found), partial(opened, *key), help=kind
                )

    def _iter_switches(self) -> Iterator[tuple[str, str]]:
        """Yield ("context", name) and ("namespace", name) for each context and namespace to switch to."""
        if self.console.connected:
            yield from (("context", each.name) for each in self.console.session.watch.contexts())
            yield from (("namespace", each) for each in (ALL_NAMESPACES, *self.console.known_namespaces()))

    def _list_targets(self) -> Iterator[HitKind]:
        app, fleet = self.console, self.console.fleet
        yield "job", 0.95, fleet.jobsets.keys(), partial(app.go_to_page, "job")
        yield "node", 0.9, [(name,) for _, name in fleet.nodes], partial(app.go_to_page, "node")
        queues = sorted({(name,) for _, name in (*fleet.cluster_queues, *fleet.local_queues)})
        yield "queue", 0.9, queues, lambda name: self._open_page("queues")
        yield "pod", 0.8, fleet.pods.keys(), partial(app.go_to_page, "pod")

    def _read_objects(self) -> Iterator[HitKind]:
        from screens.widgets.form.form_model import LaunchRequest  # more than the first screen waits for

        app, recipes = self.console, [(each.id,) for each in self._recipes]
        runs = [(str(run.number), run.name) for run in self._run_records]
        yield "run", 0.85, runs, lambda number, name: app.go_to_page("run", number)
        yield "recipe", 0.85, recipes, lambda recipe: app.open_launch(LaunchRequest(recipe))

    async def _open_page(self, page: str, namespace: str = "") -> None:
        app = self.console
        if page in {"context", "namespace"}:
            await app.run_action(f"app.pick('{page}')")
            return
        if namespace:
            known = self.console.known_namespaces()
            if namespace not in known:
                message = f"Nothing is listed in namespace {namespace}. There are {', '.join(known[:8])}."
                app.notify(message, severity="warning")
                return
            app.only_namespace = namespace
        if page in app.MODES:
            await app.action_switch_mode(page)
            if namespace:
                app.screen.post_message(events.ScreenResume())
        else:
            await app.run_action(f"app.open_page('{page}')")


def _filter_by_words(query: str, keys: Collection[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    """The keys whose name contains every typed word, if there are too many for matching each letter by letter."""
    if len(keys) <= MAX_NAMES_MATCHED:
        return keys
    words = query.casefold().split()
    return islice((key for key in keys if all(word in key[-1].casefold() for word in words)), MAX_NAMES_MATCHED)


def match_offsets(query: str, name: str) -> list[int]:
    """The matched positions in a name; empty if it does not match."""
    words, folded = query.casefold().split(), name.casefold()
    if words and all(word in folded for word in words):
        starts = [(folded.index(word), len(word)) for word in words]
        return sorted({at for start, size in starts for at in range(start, start + size)})
    letters = (f"({re.escape(letter)})" for letter in "".join(words))
    found = re.search(r"\b" + r"(?:\w*\W+)?".join(letters), folded)
    return [found.start(group + 1) for group in range(len(found.groups()))] if found else []


def match_score(query: str, name: str, positions: list[int]) -> float:
    """A name's score for the letters typed: highest for an exact match, 0 for none."""
    exact = 500.0 if query.casefold() == name.casefold() else 0.0
    return exact + FuzzySearch().score(name, positions) if positions else 0.0


class Palette(CommandPalette):
    """The command palette; Enter opens the first match of what was typed, however fast that was."""

    _searched = _listed = ""
    _submitted = False  # before anything was found for the text

    def _search_for(self, search_value: str) -> AsyncGenerator[DiscoveryHit | Hit, bool]:
        """Search without a leading colon, which k9s users type."""
        self._searched, self._submitted = search_value, False
        return super()._search_for(search_value.lstrip(": "))

    @on(Input.Submitted)
    def _point_at_first(self, event: Input.Submitted) -> None:
        found = self.query_one(CommandList)
        if self._listed != event.value.strip():
            self._submitted = True
            event.prevent_default()
        elif found.option_count and found.highlighted is None:
            found.highlighted = 0

    def _refresh_command_list(self, command_list: CommandList, commands: list[Command], clear_current: bool) -> None:
        """Show one command a line: group, name and effect; before a letter is typed, those chosen last come first."""
        used = cast(SessionApp, self.app).recent_commands
        for each in commands:
            name, *more = cast(Content, each.prompt).split("\n")
            if more:
                kind = more[0].plain if " " not in more[0].plain else "page" if name.plain.startswith(GO_TO) else "key"
                description = more[0] if kind != more[0].plain else Content("")
                name = name.pad_right(max(2, NAME_COLUMNS - len(name)))
                each._set_prompt(Content.assemble((f"{kind:<7}", "$ink-faint not bold"), name, description))
        if not self.query_one(Input).value:
            commands = sorted(
                commands, key=lambda each: used.index(text) if (text := each.hit.text) in used else MAX_RECENT
            )
        super()._refresh_command_list(command_list, commands, clear_current)
        self._listed = self._searched
        if self._submitted and command_list.option_count:
            self._submitted, command_list.highlighted = False, 0
            self._select_or_command()

    @on(CommandList.OptionSelected)
    def _remember_chosen(self, event: CommandList.OptionSelected) -> None:
        name = cast(Command, event.option).hit.text or ""
        used = cast(SessionApp, self.app).recent_commands
        used[:] = [name, *(each for each in used if each != name)][:MAX_RECENT]
