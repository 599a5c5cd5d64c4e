"""The process groups of a training, as Megatron numbers its ranks: tensor, context, data, then pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from practice.programs.steps import ProgramContext


class ProcessGroups(NamedTuple):
    """The process groups of a training, by its number of ranks and sizes of parallelism."""

    ranks: int
    tensor: int = 1
    pipeline: int = 1
    context: int = 1

    @property
    def replicas(self) -> int:
        """Return the number of ranks that hold the same weights, each with other data."""
        share = self.tensor * self.pipeline * self.context
        return 1 if self.ranks % share else max(1, self.ranks // share)

    @property
    def stages(self) -> int:
        return 1 if self.ranks % (self.tensor * self.pipeline * self.context) else self.pipeline

    @property
    def _ranks_per_stage(self) -> int:
        return self.ranks // self.stages

    def stage_of(self, rank: int) -> int:
        return rank // self._ranks_per_stage

    def data_group_of(self, rank: int) -> list[int]:
        """Return the ranks with which a rank reduces gradients, including its context-parallel ranks."""
        first = rank // self._ranks_per_stage * self._ranks_per_stage
        return list(range(first + rank % self.tensor, first + self._ranks_per_stage, self.tensor))

    def pipeline_of(self, rank: int) -> list[int]:
        return list(range(rank % self._ranks_per_stage, self.ranks, self._ranks_per_stage))

    def replica_of(self, rank: int) -> list[int]:
        """Return the ranks that train on the same data."""
        share = self.tensor * self.context
        return [each for each in range(self.ranks) if each // share % self.replicas == rank // share % self.replicas]

    def data_groups(self) -> list[list[int]]:
        return [
            self.data_group_of(stage * self._ranks_per_stage + each)
            for stage in range(self.stages)
            for each in range(self.tensor)
        ]


def model_parallel_sizes(program: ProgramContext) -> tuple[int, int, int]:
    """Return (tensor, pipeline, context) parallelism of a program; SWIFT's recipes set only the first."""
    swift = program.env.get("A4_SWIFT_TP")
    if swift:
        return int(swift), 1, 1
    tensor, pipeline, context = (int(program.env.get(name) or 1) for name in ("A4_TP", "A4_PP", "A4_CP"))
    return tensor, pipeline, context


def process_groups(context: ProgramContext) -> ProcessGroups:
    return ProcessGroups(context.nodes * context.gpus, *model_parallel_sizes(context))
