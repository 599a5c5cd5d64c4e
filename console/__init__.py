"""What is known of a cluster and what can be done to it; no user interface.

From top to bottom, each layer knowing only those below it:

    session                     one connection, from login to logout; the only door for screens
    preflight/                  what a launch needs of cluster and project, looked at beforehand
    in_cloud, cloud_offers      a cluster to launch on with Google around it; what Google has for fields of the form
    attach, ssh/                ranks by name for ssh and editors: hosts, checked host keys, the person's key, a doctor
    files/, inside/             copies from and to pods; commands in many ranks at once, facts of a container
    gpus, xray/, alarms/        what GPUs do, where processes hang, what is wrong with the jobs that run
    images/, storage            builds and registries; buckets, Lustre and Filestore
    nodepools, cloud            Google's side of the node pools; as whom Google is asked, and where the cluster lies
    launching, measures/        a watched cluster to launch on; NCCL tests and training steps, read from logs
    tunnel/, follow/            ports of this machine that follow a rank; the logs of all ranks, followed and kept
    runs, releases, stopping    what was launched, what came of it, what of a release can change, what goes with it
    launch, watched             a recipe and its values -> a Helm release; one cluster's watches and its latest picture
    log_results, log_files      NCCL tables and training steps in any log, without a cluster; a job's logs as files
    store, cluster/, helm       single objects in, whole pictures out; the Kubernetes API; the Helm SDK
    google/, spool/             Google's other services; lines of logs on the disk
    history, profiles           what is remembered in files of the person's own
    practice/                   a cluster of our own to practise on; knows none of the others
    parsers/                    outside form in (bytes), model out; pure functions
    models/                     frozen shapes and the arithmetic on them
    settings, assets, folders   what was asked for at the start; where chart/ and launchers/ are; folders of our own
    errors                      failures a person can act on
"""
