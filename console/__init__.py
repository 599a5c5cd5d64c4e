"""Knows the cluster and acts on it, without a user interface.

Each package knows only those named after it:

- `session`: one connection from login to logout: the door to a cluster for screens and commands.
- `preflight`: checks of the cluster and the Google project before a launch.
- `checkpoints`: saved states of runs in pods and buckets: which are complete.
- `google`: clusters, node pools, builds, images and storage; only `google.api` imports Google's libraries.
- `hang`: where every process of a hanging job is: stacks, NCCL's RAS service, advice.
- `attach`: ways into running pods: `ssh`, `tunnel`, `files`, and commands in many ranks.
- `launch`: recipes and their values, whether a plan fits, Helm, releases, run history, profiles.
- `metrics`: what jobs measure: `nccl` tests, `training` runs, GPUs, and alarms about them.
- `logs`: the logs of jobs: followed, stored, merged, filtered, redacted.
- `scheduling`: what follows from Kueue's rules: why a job waits, quota, topology, ranks, forecasts.
- `kube`: the Kubernetes API: connections, requests and watches; each kind of object is a module of `kube.objects`.

Beside them, `connection_settings`, `assets` and `folders` say how a4 was started and where files are, `settings_file`
what a person has set, `decoding` turns bytes of pods and buckets into objects within limits, `durations` turns seconds
into words, and `errors` holds the failures that a person can act on.
"""
