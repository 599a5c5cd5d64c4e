"""The practice cluster: an API server, controllers and pods that print, for `--demo`, `a4 practice` and tests.

It serves the Kubernetes API over HTTPS on a loopback port, so the console, the Helm SDK, kubectl and ssh treat it like
any other cluster. It imports only a few modules of the console, none of which knows a cluster (the import contracts
name them), and otherwise follows the API and the real controllers. From top to bottom:

    cluster, child     the whole cluster; the same in a child process
    scene/             the state of the cluster when it opens
    google/            the Google services around it that the console asks
    api/               the API server: HTTP, watches, accounts, streams into pods
    admission/         defaults and refusals of the API server and the webhooks
    controllers/       JobSet, Job, Kueue, scheduler, kubelet, garbage collection
    programs/, node/   the output of pods; the services of a machine for them
    objects/           kinds, storage, versions, selectors, patches
"""
