"""`a4 nccl-quick`: a short NCCL test inside a pod that runs, its rows as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import Unreadable
from console.inside.quick_nccl import QuickTest
from console.log_results import LogReading
from screens.cli.connect import connected
from screens.cli.output import warn
from screens.cli.ranks import KINDS, container_of, rank_named, running_pod
from screens.cli.read import Told, is_well
from screens.cli.read_json import say_reading

if TYPE_CHECKING:
    from screens.cli.options import Options

LIMIT = 120.0
"""Seconds after which it is given up, unless another limit is asked for."""


async def nccl_quick(options: Options) -> int:
    """Measure; 1 if the test failed or had wrong values."""
    test = QuickTest(options.first_size, options.last_size, options.test_gpus)
    async with connected(options, KINDS) as session:
        fleet = await session.listed(*KINDS)
        rank = rank_named(fleet, session.namespace, options.job, options.rank_text)
        pod = running_pod(rank, options.job, "no test can run in it")
        reading, told = LogReading(), Told()

        def heard(channel: int, data: bytes) -> None:
            if channel == 2:
                for line in data.decode(errors="replace").splitlines():
                    warn(line)
            elif reading.feed(data) and not options.json:
                told.more(reading)

        test.check()
        if not options.json:
            warn(f"all_reduce_perf on the GPUs of pod {rank.number}, beside what runs there")
        await session.inside.quick_nccl(
            pod, test, heard=heard, container=container_of(pod, options.container), limit=options.limit or LIMIT
        )
    reading.close()
    if options.json:
        say_reading(reading)
    else:
        told.more(reading, ended=True)
    if not any(each.rows for each in reading.nccl):
        raise Unreadable(f"The test in pod {rank.number} of {options.job} printed no row.", "a4 exec shows its output.")
    return int(not is_well(reading))
