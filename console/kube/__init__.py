"""The Kubernetes API: login, lists and watches, changes, logs, commands in containers, port-forwards."""
