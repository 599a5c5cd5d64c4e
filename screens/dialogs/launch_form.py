"""Profiles in the launch form, and what Google offers for its fields: asked when a list is dropped down, then kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from console.errors import ConsoleError
from console.kube.nested_values import overlay
from console.launch.choices import GOOGLE_KINDS, Offer, OfferState
from console.launch.run_record import flat
from screens import wording
from screens.dialogs.question import Choice, Pick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.kube.nested_values import Value
    from console.session import Session
    from screens.dialogs.launch import Launching
    from screens.widgets.form.launch_draft import LaunchDraft


async def pick_profile(screen: Launching) -> None:
    """Lay the values of a profile over what is in the form; what was there is one undo away."""
    profiles, draft = screen.app.session.profiles, screen.draft
    if draft is None:
        return
    names, default = await profiles.names(), await profiles.default()
    if not names:
        screen.app.notify("There are no profiles. a4 profiles NAME --set queue=a4 makes one.", markup=False)
        return
    choices = [Choice(name, "the default" if name == default else "", present=name == default) for name in names]
    picked = await screen.app.push_screen_wait(Pick("Apply which profile to the form?", choices))
    if picked:
        await _lay_named(screen, draft, picked)


async def lay_default(screen: Launching, draft: LaunchDraft, untouched: Mapping[str, str]) -> None:
    """Lay the default profile under a form that is new, unless something else was put into it meanwhile."""
    name = await screen.app.session.profiles.default()
    if name:
        await _lay_named(screen, draft, name, untouched)


async def _lay_named(
    screen: Launching, draft: LaunchDraft, name: str, untouched: Mapping[str, str] | None = None
) -> None:
    try:
        values = await screen.app.session.profiles.values(name, draft.recipe.id)
    except ConsoleError as error:
        screen.app.notify(str(error), title="The profile was not used", severity="error", timeout=8, markup=False)
        return
    if untouched is None or _typed(draft, draft.model.texts) == _typed(draft, untouched):
        _lay(screen, draft, values)
        what = wording.count(len(list(flat(values))), "value")
        screen.app.notify(f"Profile {name}: {what}.", timeout=3, markup=False)


def _typed(draft: LaunchDraft, texts: Mapping[str, str]) -> dict[str, str]:
    """The texts but for the queue, which follows the cluster by itself until somebody types one."""
    follows = {field.path for field in draft.fields if field.choices_from == "localqueues"}
    return {path: text for path, text in texts.items() if path not in follows}


def _lay(screen: Launching, draft: LaunchDraft, values: Mapping[str, Value]) -> None:
    plan, _ = draft.plan(screen.app.session.namespace)
    texts = draft.texts_for(overlay(plan.values, values))
    if screen.draft is draft:
        screen.form.put_texts(texts)
    else:
        draft.model.texts.update(texts)


AGAIN = 30.0  # seconds after which Google is asked anew


class GoogleOffers:
    """As far as one form has asked."""

    def __init__(self) -> None:
        self._known: dict[str, Offer] = {}
        self._asked: dict[str, float] = {}

    def over(self, offers: Mapping[str, Offer]) -> dict[str, Offer]:
        """What there is to choose from, with what Google has beyond it."""
        none = {kind: Offer(kind) for kind in self._known}
        return {**offers, **{kind: {**none, **offers}[kind].joined(more) for kind, more in self._known.items()}}

    def wants(self, kind: str) -> bool:
        """Whether Google is to be asked for that kind now; from then on it is being asked."""
        now = time.monotonic()
        if kind not in GOOGLE_KINDS or now < self._asked.get(kind, -AGAIN) + AGAIN:
            return False
        self._asked[kind] = now
        if kind not in self._known:
            words = f"Asking Google for {GOOGLE_KINDS[kind]} …"
            self._known[kind] = Offer(kind, state=OfferState.UNASKED, why=words)
        return True

    async def ask(self, session: Session, kind: str) -> None:
        found = self._known[kind] = await session.google_offer(kind)
        if found.state is OfferState.FAILED:
            self._asked.pop(kind, None)  # the next try need not wait
