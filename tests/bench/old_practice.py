"""`python -m tests.bench.old_practice HOURS`: a practice cluster that has run for so long; prints its kubeconfig."""

import asyncio
import os
import sys
import time

from practice.cluster import PracticeCluster


class OldCluster(PracticeCluster):
    """Opened some hours ago; what happened since then is replayed."""

    def __init__(self, hours: float) -> None:
        super().__init__()
        self._opening -= 3600 * hours
        self.clock.simulate_until(self.clock.now() - 3600 * hours)
        self.clock.live_from = self._opening

    def simulate_past(self) -> None:
        super().simulate_past()
        self.clock.simulate_until(time.time())


async def serve(hours: float) -> None:
    async with OldCluster(hours) as cluster:
        sys.stdout.write(f"{cluster.kubeconfig}\n")
        sys.stdout.flush()
        await asyncio.to_thread(os.read, 0, 1)  # until standard input ends


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
