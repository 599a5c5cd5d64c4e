"""Kueue's rules (`kueue`), and what follows from them: waiting reasons, quota, topology, ranks, forecasts, failures."""
