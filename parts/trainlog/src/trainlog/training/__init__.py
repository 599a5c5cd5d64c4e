"""Training runs: steps parsed from logs, time series, events, exports."""
