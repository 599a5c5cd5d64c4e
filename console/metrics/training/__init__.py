"""Training runs: steps out of logs, series, events on the way, exports."""
