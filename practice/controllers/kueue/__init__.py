"""Kueue 0.18: Workloads for Jobs, JobSets and pods, admission by the library of its rules, and its messages."""
