"""Kueue's arithmetic: why a job waits, quota, topology, ranks, forecasts, failures. Pure functions."""
