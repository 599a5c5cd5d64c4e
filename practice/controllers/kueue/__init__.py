"""Kueue 0.18 in small modules: Workloads for Jobs and JobSets, quota, preemption, topology, and what it all says."""
