"""Frozen shapes and the arithmetic on them: nothing here awaits, opens, logs, formats or colours.

Times are seconds since the epoch (UTC), 0.0 when the object does not say. Bandwidths are GB/s (10^9). Text is what the
API server or a program wrote, never what a screen shows.
"""
