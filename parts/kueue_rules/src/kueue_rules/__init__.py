"""Kueue's rules as a pure library: from the state of queues, nodes and workloads to the decisions of a cycle.

Callers fill in a `Snapshot` and call `admission_cycle`; `VirtualCluster` runs cycles until nothing changes, and
`simulate` runs a whole scenario. Amounts are whole numbers, in a cycle thousandths of a unit. Names that are not listed
here are internal.

The stub beside this file lists the names; the module of each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
