"""Kueue 0.18 in small modules: Workloads for Jobs and JobSets, what its rules decide, and what it all says."""
