"""Kueue's rules as a pure library: from the state of queues, nodes and workloads to the decisions of a cycle.

A `Snapshot` is what a caller fills in, `admission_cycle` what it calls, and `VirtualCluster` runs cycles until nothing
changes; `simulate` plays a whole scenario. Amounts are whole numbers, thousandths of a unit in a cycle. What is not
named here is the library's own.

The stub beside this file lists the names; the module of each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
