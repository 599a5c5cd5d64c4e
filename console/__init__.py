"""What is known of a cluster and what can be done to it; no user interface.

From top to bottom, each layer knowing only those below it:

    session                     one connection, from login to logout; the only door for screens
    attach, ssh/                ranks by name for ssh and editors: hosts, checked host keys, the person's key, a doctor
    files/, inside/             copies from and to pods; commands in many ranks at once, facts of a container
    tunnel/                     ports of this machine that follow a rank; the pipe that ssh goes through
    runs, releases, stopping    what was launched, what came of it, what of a release can change, what goes with it
    launch, watched             a recipe and its values -> a Helm release; one cluster's watches and its latest picture
    reading                     a log that somebody has, read without any cluster
    store, cluster/, helm       single objects in, whole pictures out; the Kubernetes API; the Helm SDK
    history, profiles           what is remembered in files of the person's own
    practice/                   a cluster of our own to practise on; knows none of the others
    parsers/                    outside form in (bytes), model out; pure functions
    models/                     frozen shapes and the arithmetic on them
    settings, assets            what was asked for at the start; where chart/ and launchers/ are
    errors                      failures a person can act on
"""
