"""Kueue's rules (`kueue`), and what they mean for a job: why it waits, quota, topology, ranks, forecasts, failures."""
