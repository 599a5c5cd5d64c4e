"""The practice cluster: an API server, controllers and pods that print, for `--demo`, `a4 practice` and tests.

It speaks the Kubernetes API over HTTPS on a loopback port, so the console, the Helm SDK, kubectl and ssh treat it as
any cluster. Nothing here knows the console: only the API, and what the real controllers do and say.
"""
