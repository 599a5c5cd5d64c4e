"""Kueue's rules as a pure library: from the state of queues, nodes and workloads to the decisions of a cycle.

The practice cluster runs it, and what the console tells of queues stands on the same arithmetic. `state` is what a
caller fills in, `cycle` what it calls; amounts are whole numbers, thousandths of a unit in a cycle.
"""
