"""Conclusions from Kueue's rules (`kueue_rules`): waiting reasons, quota, topology, ranks, forecasts, failures."""
