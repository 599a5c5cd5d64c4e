"""The practice cluster: an API server, controllers and pods that print, for `--demo`, `a4 practice` and tests.

It speaks the Kubernetes API over HTTPS on a loopback port, so the console, the Helm SDK, kubectl and ssh treat it like
any other. Of the console it imports only a few modules that know no cluster (the import contracts name them); else it
knows the API, and what the real controllers do and say. From top to bottom:

    cluster, child     all of it together; the same in a process of its own
    scene/             what the cluster looks like when it opens
    google/            the Google services around it that the console asks
    api/               the API server: HTTP, watches, accounts, streams into pods
    admission/         what the API server and the webhooks add to an object, or refuse
    controllers/       JobSet, Job, Kueue, scheduler, kubelet, garbage collection
    programs/, node/   what pods print; what a machine does for them
    objects/           kinds, storage, versions, selectors, patches
"""
