"""Which tabs a job's page has, in their order: a new tab is a module of its own and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.tabs.events import EventsTab
from screens.tabs.log import LogTab
from screens.tabs.nccl import NcclTab
from screens.tabs.ranks import RanksTab
from screens.tabs.yaml import YamlTab

if TYPE_CHECKING:
    from screens.tabs.tab import JobTab

TABS: tuple[type[JobTab], ...] = (
    RanksTab,
    LogTab,
    NcclTab,
    EventsTab,
    YamlTab,
)
