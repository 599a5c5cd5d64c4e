"""What is known of a cluster and what can be done to it; no user interface.

`session` is the only door for screens and commands. Below it, each knows only what stands under it:

- `preflight`: checks of cluster and project before a launch.
- `google`: Google Cloud around the cluster; `google.api` holds the only importers of Google's libraries.
- `hang`: the X-ray of a job that hangs: stacks of all its processes, NCCL's RAS service, advice.
- `attach`: ways into running pods: `ssh`, `tunnel`, `files`, commands in many ranks.
- `launch`: recipes, forms and `values`, whether a plan fits, Helm, releases, runs, profiles.
- `metrics`: what jobs measure: `nccl` tests, `training` runs, GPUs, and the alarms about them.
- `logs`: logs of jobs: followed, stored, merged, filtered, redacted.
- `scheduling`: Kueue's arithmetic: why a job waits, quota, topology, ranks, forecasts.
- `kube`: the Kubernetes API in and out; one kind of object a module in `kube.objects`.
- `settings` and `assets`: how a4 was started and where its files are. `errors`: failures a person can act on.
"""
