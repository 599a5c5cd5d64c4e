"""The Kubernetes API: log in, list and follow, act, read logs, run commands, reach ports.

Bytes come in by aiohttp and go straight to `console.parsers`; of the `kubernetes` package only the log-in plug-ins are
used (`plugin`), because its models take a millisecond per pod and its import half a second.
"""
