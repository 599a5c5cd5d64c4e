"""Kueue 0.18: Workloads for Jobs, JobSets and pods, admission by the library kueue_rules, and its messages."""
