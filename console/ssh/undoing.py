"""Everything that a4 wrote for ssh taken away again."""

from __future__ import annotations

import shutil

from console.ssh import include
from console.ssh.places import Places


def undo() -> tuple[str, ...]:
    """Do it, but keep a key pair of our own; what was done, a sentence each. Blocking."""
    places = Places.find()
    done = []
    if include.remove(places):
        done.append(f"{places.user_config} is as it was.")
    if places.own.is_dir():
        with places.locked():
            made_above = places.made_user_folder.exists()
            for path in (places.config, places.whole_config, places.known_hosts, places.made_user_folder):
                path.unlink(missing_ok=True)
            shutil.rmtree(places.jobs, ignore_errors=True)
            for path in places.own.glob("agent-*.pub"):
                path.unlink()
        done.append("The hosts of all jobs are gone.")
        if places.own_key.exists():
            done.append(f"The key pair {places.own_key} stays, for pods may know it; delete it if you like.")
        else:
            shutil.rmtree(places.own, ignore_errors=True)
            if made_above and not any(places.user.iterdir()):
                places.user.rmdir()
    return tuple(done) or ("There was nothing to take away.",)
