"""Preflight: what the documents ask of cluster and project, checked together before a launch.

`table` lists the checks; each is a function of `cluster`, `machines`, `storage`, `queues`, `images` or `network`;
`looking` asks and writes down; `running` runs them; `repairs` mends what an API can mend.
"""

from console.preflight.running import Preflight

__all__ = ["Preflight"]
