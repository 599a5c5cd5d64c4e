"""The Kubernetes API in and out: log in, list and follow, act, read logs, run commands, reach ports."""
