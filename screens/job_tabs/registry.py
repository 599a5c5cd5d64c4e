"""Which tabs a job's page has, in their order: a new tab is a module of its own and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.job_tabs.events import EventsTab
from screens.job_tabs.gpus import GpusTab
from screens.job_tabs.hang import HangTab
from screens.job_tabs.log import LogTab
from screens.job_tabs.nccl import NcclTab
from screens.job_tabs.ranks import RanksTab
from screens.job_tabs.training import TrainingTab
from screens.job_tabs.yaml import YamlTab

if TYPE_CHECKING:
    from screens.job_tabs.tab import JobTab

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
