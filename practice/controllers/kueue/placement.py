"""Where the pods of a pod set go: the narrowest place that holds them, then as few places as possible below it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from practice.controllers.kueue.podsets import is_explicit
from practice.controllers.matching import selects, taint_words, untolerated

if TYPE_CHECKING:
    from practice.controllers.kueue.assignment import Place
    from practice.controllers.kueue.info import PodSetInfo
    from practice.controllers.kueue.topology import Domain, Tree


@dataclass
class Wish:
    """What a pod set asks of the topology."""

    count: int
    level: int
    slice_level: int
    slice_size: int = 1
    required: bool = False
    unconstrained: bool = False


@dataclass
class Exclusions:
    """Why nodes were left out."""

    total: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def words(self) -> str:
        """Return them as Kueue appends them to its sentence."""
        if not self.reasons:
            return ""
        listed = ", ".join(sorted(f"{reason}: {count}" for reason, count in self.reasons.items()))
        return f". Total nodes: {self.total}; excluded: {listed}"


def place(tree: Tree, pod_set: PodSetInfo, *, empty: bool = False) -> tuple[list[Place], str]:
    """Return the places of all pods of a pod set, or no place and why not; ``empty`` ignores what is used."""
    wish, why = _wish(tree, pod_set)
    if wish is None:
        return [], why
    excluded = _fill(tree, pod_set, wish, empty=empty)
    level, domains, why = _find_level(tree, wish, wish.level, excluded)
    if why:
        return [], why
    chosen = _least(domains, wish, wish.slice_size, by_slices=True)
    last = len(tree.levels) - 1
    while level < min(last, wish.slice_level):
        below = [child for domain in chosen for child in domain.children]
        chosen = _least(_sorted(below, wish), wish, wish.slice_size, by_slices=True)
        level += 1
    while level < last:
        parents, chosen = chosen, []
        for parent in parents:
            part = Wish(parent.state, wish.level, wish.slice_level, 1, unconstrained=wish.unconstrained)
            chosen += _least(_sorted(parent.children, wish), part, 1, by_slices=False)
        level += 1
    chosen.sort(key=lambda domain: domain.values)
    return [(tree.assigned(domain), domain.state) for domain in chosen if domain.state], ""


def _wish(tree: Tree, pod_set: PodSetInfo) -> tuple[Wish | None, str]:
    request = pod_set.pod_set.get("topologyRequest") or {}
    last = len(tree.levels) - 1
    key = request.get("required") or request.get("preferred")
    free = bool(request.get("unconstrained")) or not is_explicit(pod_set.pod_set)
    if key is None and "podSetSliceRequiredTopology" in request:
        key = tree.levels[0]
    level = tree.level_of(key) if key is not None else last
    if level is None:
        return None, f"no requested topology level: {key}"
    size = request.get("podSetSliceSize", 1)
    slice_key = request.get("podSetSliceRequiredTopology") or tree.levels[last]
    slice_level = tree.level_of(slice_key)
    if slice_level is None:
        return None, f"no requested topology level for slices: {slice_key}"
    if slice_level < level:
        return None, f"podset slice topology {slice_key} is above the podset topology {key}"
    return Wish(pod_set.count, level, slice_level, size, "required" in request, free), ""


def _fill(tree: Tree, pod_set: PodSetInfo, wish: Wish, *, empty: bool) -> Exclusions:
    """Write into every place how many pods fit there."""
    excluded = Exclusions()
    spec = pod_set.pod_set["template"]["spec"]
    flavor = tree.flavor.get("spec") or {}
    tolerations = [*(spec.get("tolerations") or ()), *(flavor.get("tolerations") or ())]
    single = {**pod_set.single, "pods": 1000}
    for leaf in tree.leaves:
        leaf.state = leaf.slices = 0
        excluded.total += 1
        if tree.of_nodes:
            taint = untolerated(leaf.nodes[0]["spec"].get("taints"), tolerations)
            if taint is not None:
                excluded.reasons[f'taint "{taint_words(taint)}"'] += 1
                continue
            if not selects(spec, leaf.nodes[0]):
                excluded.reasons["affinity" if spec.get("affinity") else "nodeSelector"] += 1
                continue
        fits = {
            name: max(leaf.free.get(name, 0) - (0 if empty else leaf.used.get(name, 0)), 0) // value
            for name, value in sorted(single.items())
            if value > 0
        }
        scarce = min(fits, key=lambda name: fits[name])
        leaf.state = fits[scarce]
        if not leaf.state:
            excluded.reasons[f'resource "{scarce}"'] += 1
    for root in tree.by_level[0].values():
        _sum_up(root, 0, wish)
    return excluded


def _sum_up(domain: Domain, level: int, wish: Wish) -> None:
    for child in domain.children:
        _sum_up(child, level + 1, wish)
    if domain.children:
        domain.state = sum(child.state for child in domain.children)
        domain.slices = sum(child.slices for child in domain.children)
    if level == wish.slice_level:
        domain.slices = domain.state // wish.slice_size


def _find_level(tree: Tree, wish: Wish, level: int, excluded: Exclusions) -> tuple[int, list[Domain], str]:
    """Return the level and places to begin with: one place that holds all, at this level or a wider one."""
    domains = _sorted(list(tree.by_level[level].values()), wish)
    if not domains:
        return 0, [], f"no topology domains at level: {tree.levels[level]}"
    slices = wish.count // wish.slice_size
    if wish.unconstrained:
        fitting = [domain for domain in domains if domain.slices >= slices]
        if fitting:
            return level, [fitting[0]], ""
    elif domains[0].slices >= slices:
        return level, [_best_fit(domains, slices)], ""
    if wish.required:
        return 0, [], _not_fitting(tree, domains[0].slices, wish, excluded)
    if level > 0 and not wish.unconstrained:
        return _find_level(tree, wish, level - 1, excluded)
    chosen, left = _spread(domains, slices, wish)
    if left > 0:
        return 0, [], _not_fitting(tree, slices - left, wish, excluded)
    return level, chosen, ""


def _spread(domains: list[Domain], slices: int, wish: Wish) -> tuple[list[Domain], int]:
    """Return the places that together hold all, and what is left over when there are too few."""
    chosen, left = [], slices
    while left > 0 and domains:
        domain = domains[0]
        if not wish.unconstrained and domain.slices >= left:
            domain = _best_fit(domains, left)
        domains.remove(domain)
        if domain.slices:
            chosen.append(domain)
            left -= domain.slices
    return chosen, left


def _least(domains: list[Domain], wish: Wish, size: int, *, by_slices: bool) -> list[Domain]:
    """Take from places in order until all pods have one; write the pods taken into each place."""
    left = wish.count // size if by_slices else wish.count
    chosen, rest = [], list(domains)
    while left > 0 and rest:
        domain = rest[0]
        if not wish.unconstrained and _room(domain, by_slices) >= left:
            domain = _best_fit(rest, left, by_slices=by_slices)
        rest.remove(domain)
        taken = min(_room(domain, by_slices), left)
        left -= taken
        domain.slices, domain.state = (taken, taken * size) if by_slices else (domain.slices, taken)
        chosen.append(domain)
    return chosen


def _room(domain: Domain, by_slices: bool) -> int:
    return domain.slices if by_slices else domain.state


def _best_fit(domains: list[Domain], needed: int, *, by_slices: bool = True) -> Domain:
    best = domains[0]
    for domain in domains:
        if needed <= _room(domain, by_slices) < _room(best, by_slices):
            best = domain
    return best


def _sorted(domains: list[Domain], wish: Wish) -> list[Domain]:
    sign = 1 if wish.unconstrained else -1
    return sorted(domains, key=lambda domain: (sign * domain.slices, domain.state, domain.values))


def _not_fitting(tree: Tree, fit: int, wish: Wish, excluded: Exclusions) -> str:
    unit = "pod" if wish.slice_size == 1 else "slice"
    total = wish.count // wish.slice_size
    text = f'topology "{tree.name}" allows to fit only {fit} out of {total} {unit}(s)'
    if not fit:
        text = f'topology "{tree.name}" doesn\'t allow to fit any of {total} {unit}(s)'
    return text + excluded.words()
