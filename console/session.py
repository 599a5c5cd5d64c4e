"""One session with a cluster, from log-in to log-out: the only door for screens and commands.

What is seen comes from `watched`; here is what can be done. Importing this is cheap: the network's libraries are
imported where they are first needed.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from functools import cached_property
from getpass import getuser
from typing import TYPE_CHECKING

from console.errors import NotFound
from console.models.access import StopReport
from console.models.link import LinkState
from console.watched import WatchedCluster

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager

    from console.cluster.connection import Kubeconfig
    from console.files.copies import Copies
    from console.follow import Follow
    from console.inside.containers import Inside
    from console.launch import Catalogue, Launcher
    from console.models.launch import Field, FieldProblem, LaunchPlan, Manifest, Recipe, Value
    from console.models.log import LogLine
    from console.models.nccl import NcclTest
    from console.models.pod import Pod
    from console.settings import Settings

_MAY_AGAIN = 60.0
"""Seconds for which an answer about rights is believed."""


def launchable() -> tuple[Recipe, ...]:
    """What can be launched; asks no cluster."""
    from console.launch import Catalogue

    return Catalogue.load().recipes()


class Session(WatchedCluster):
    """A cluster: its latest picture, and what can be done to it."""

    def __init__(self, settings: Settings, kubeconfig: Kubeconfig, kinds: Collection[str]) -> None:
        super().__init__(settings, kubeconfig, kinds)
        self._rights: dict[tuple[str, ...], tuple[float, bool]] = {}
        self._launches: Catalogue | None = None

    def _left(self) -> None:
        self._rights.clear()
        if "follow" in vars(self):
            self.follow.left()

    async def close(self) -> None:
        """End everything."""
        if "follow" in vars(self):
            await self.follow.close()
        await super().close()

    async def _greet(self) -> None:
        """Once the server has answered, load what the launch screen needs: it takes long enough to be felt there."""
        await super()._greet()
        if self._launches is None and len(self._kinds) > 1:
            from console.launch import Catalogue

            self._launches = await asyncio.to_thread(Catalogue.load)

    async def may(
        self, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = "", subresource: str = ""
    ) -> bool:
        """Whether the account may do this; believed for a minute."""
        from console.cluster import actions

        asked = (verb, resource, group, namespace, name, subresource)
        until, answer = self._rights.get(asked, (0.0, False))
        if time.monotonic() >= until:
            answer = await actions.may(self.connected.client, *asked)
            self._rights[asked] = (time.monotonic() + _MAY_AGAIN, answer)
        return answer

    # things done

    async def cordon(self, node: str, *, on: bool = True) -> None:
        """Keep new pods off a node, or let them on again."""
        from console.cluster import actions

        connection = self.changing(f"{'cordon' if on else 'uncordon'} node {node}")
        await actions.cordon(connection.client, node, on=on)

    async def delete_pod(self, namespace: str, name: str) -> None:
        """Ask a pod to go; its Job makes another."""
        from console.cluster import actions

        await actions.delete_pod(self.changing(f"delete pod {name}").client, namespace, name)

    async def stop_job(self, namespace: str, name: str) -> StopReport:
        """Remove the Helm release that made a JobSet, or the JobSet alone if none of ours did; NotFound if neither."""
        from console.cluster import actions

        connection = self.changing(f"stop {name}")
        jobset = await actions.read_jobset(connection.client, connection.catalogue, namespace, name)
        if jobset.release:
            with suppress(NotFound):  # made by another chart, or by hand with Helm's labels
                gone = await self._launcher().stop(namespace, jobset.release)
                return StopReport(namespace, name, jobset.release, gone)
        await actions.delete_jobset(connection.client, connection.catalogue, namespace, name)
        return StopReport(namespace, name, deleted=(f"JobSet {name}",))

    async def manifest(self, kind: str, namespace: str, name: str) -> str:
        """The live object as YAML, Secret data hidden; `kind` in singular or plural, in any case."""
        from console.cluster import actions

        connection = self.connected
        return await actions.manifest(connection.client, connection.catalogue, kind, namespace, name)

    # launches

    def _catalogue(self) -> Catalogue:
        if self._launches is None:
            from console.launch import Catalogue

            self._launches = Catalogue.load()
        return self._launches

    def _launcher(self) -> Launcher:
        from console.helm import Helm
        from console.launch import Launcher

        return Launcher(self._catalogue(), Helm(self.settings.kubeconfig, self.context), self.connected.client)

    def recipes(self) -> tuple[Recipe, ...]:
        """What can be launched."""
        return self._catalogue().recipes()

    def fields(self, recipe: str) -> tuple[Field, ...]:
        """What the form of a recipe asks for."""
        return self._catalogue().fields(recipe)

    def problems(self, plan: LaunchPlan) -> tuple[FieldProblem, ...]:
        """Why a plan cannot be launched; empty if it can, as far as its values say."""
        return self._catalogue().problems(plan)

    def notes(self, plan: LaunchPlan) -> tuple[str, ...]:
        """What the values of a sound plan come to, such as its iterations; none while it has problems."""
        return self._catalogue().notes(plan)

    def suggest_name(self, recipe: str) -> str:
        """A valid name that says who and what."""
        return self._catalogue().suggest_name(recipe, getuser())

    def set_values(self, recipe: str, settings: Sequence[str]) -> dict[str, Value]:
        """Nested values of `path=value` settings; raises BadInput."""
        return self._catalogue().set_values(recipe, settings)

    async def render(self, plan: LaunchPlan) -> tuple[Manifest, ...]:
        """The objects a plan would make; the cluster is not asked."""
        return await self._launcher().render(plan)

    async def check(self, plan: LaunchPlan) -> None:
        """Let the API server and its webhooks judge a plan, without making anything."""
        await self._launcher().check(plan)

    async def launch(self, plan: LaunchPlan) -> str:
        """Launch a plan; the JobSet's name. A failed launch leaves nothing."""
        self.changing(f"launch {plan.name}")
        return await self._launcher().launch(plan)

    # in pods

    @property
    def copies(self) -> Copies:
        """Copies between this machine and pods."""
        from console.files.copies import Copies

        return Copies(self)

    @property
    def inside(self) -> Inside:
        """One command in many ranks, and what containers say of themselves."""
        from console.inside.containers import Inside

        return Inside(self)

    # streams

    @cached_property
    def follow(self) -> Follow:
        """What all ranks of a job print, followed once for all who read it and kept on this machine."""
        from console.follow import Follow

        return Follow(self)

    def follow_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        tail: int | None = None,
        since: float = 0.0,
        previous: bool = False,
        follow: bool = True,
    ) -> AsyncGenerator[LogLine, None]:
        """Lines of a container until it has ended, over dropped connections, none lost or repeated."""
        from console.cluster import logs

        wanted = logs.Wanted(namespace, pod, container, tail, since, previous, follow)
        return logs.follow_log(self.connected.client, wanted)

    async def exec(
        self,
        namespace: str,
        pod: str,
        argv: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | AsyncIterator[bytes] | None = None,
        on_output: Callable[[int, bytes], None],
    ) -> int:
        """Run a command in a container; its exit code. `on_output` gets 1 (output) or 2 (errors) and the bytes."""
        from console.cluster import exec as executing

        client = self.changing(f"run a command in pod {pod}").client
        return await executing.run(client, namespace, pod, argv, on_output, container=container, stdin=stdin)

    async def shell(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        argv: Sequence[str] = (),
        tmux: bool = True,
        name: str = "",
    ) -> int:
        """A shell on this process's terminal, which nobody else may be using; its exit code; `name` titles it."""
        from console.cluster import shell

        client = self.changing(f"open a shell in pod {pod}").client
        return await shell.shell(client, namespace, pod, container=container, argv=argv, tmux=tmux, name=name)

    def forward(
        self, namespace: str, pod: str, remote_port: int, *, local_port: int = 0
    ) -> AbstractAsyncContextManager[int]:
        """A port of this machine that leads to the pod's; yields its number."""
        from console.cluster import forward

        return forward.forward(self.connected.client, namespace, pod, remote_port, local_port)

    async def nccl(self, namespace: str, jobset: str) -> AsyncGenerator[tuple[NcclTest, ...], None]:
        """Tests that a JobSet's rank 0 prints, as they grow, over restarts, until the JobSet has ended."""
        from console.parsers.nccl import NcclParser

        done: set[tuple[str, int]] = set()
        async with aclosing(self._store.snapshots()) as pictures:
            async for _ in pictures:
                pod = self._first_rank(namespace, jobset)
                while pod and pod.main and (run := (pod.uid, pod.restarts)) not in done:
                    if pod.main.state == "waiting":
                        break
                    done.add(run)
                    parser = NcclParser()
                    async with aclosing(self.follow_log(namespace, pod.name, container=pod.main.name)) as lines:
                        async for line in lines:
                            if parser.feed(f"{line.text}\n".encode()):
                                yield parser.tests
                    if parser.close():
                        yield parser.tests
                    pod = self._first_rank(namespace, jobset)
                found = self.fleet.jobsets.get((namespace, jobset))
                listing = self.fleet.links["jobsets"].state is LinkState.LISTING
                if (found is None and not listing) or (found and found.finished):
                    return

    def _first_rank(self, namespace: str, jobset: str) -> Pod | None:
        """The pod that fills the first rank now."""
        from console.models.ranks import ranks

        found = self.fleet.jobsets.get((namespace, jobset))
        return next((rank.pod for rank in ranks(found, self.fleet) if rank.pod), None) if found else None
