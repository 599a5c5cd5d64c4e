"""Kueue 0.18: Workloads for Jobs and JobSets, admission by the library of its rules, and its messages."""
