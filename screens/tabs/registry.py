"""Which tabs a job's page has, in their order: a new tab is a module of its own and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.tabs.events import EventsTab
from screens.tabs.gpus import GpusTab
from screens.tabs.hang import HangTab
from screens.tabs.log import LogTab
from screens.tabs.nccl import NcclTab
from screens.tabs.ranks import RanksTab
from screens.tabs.training import TrainingTab
from screens.tabs.yaml import YamlTab

if TYPE_CHECKING:
    from screens.tabs.tab import JobTab

TABS: tuple[type[JobTab], ...] = (
    RanksTab,
    LogTab,
    NcclTab,
    TrainingTab,
    GpusTab,
    HangTab,
    EventsTab,
    YamlTab,
)
