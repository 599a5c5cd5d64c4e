"""Compute Engine's REST API for managed instance groups, as far as the console uses it."""

from __future__ import annotations

from aiohttp import web

from practice.google.cloud import CLUSTER, PracticeGoogle


def routes(google: PracticeGoogle) -> list[web.RouteDef]:
    async def get_instance_group(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        pool = name.removeprefix(f"gke-{CLUSTER}-").removesuffix("-grp")
        counted = google.count_group(pool) if google.count_group else None
        if counted is None:
            return web.json_response({"error": {"code": 404, "message": f"{name} was not found"}}, status=404)
        target, repairing, creating = counted
        doing = {"none": target - repairing - creating, "recreating": repairing, "creating": creating}
        return web.json_response({"name": name, "targetSize": target, "currentActions": doing})

    return [web.get("/compute/v1/projects/{project}/zones/{zone}/instanceGroupManagers/{name}", get_instance_group)]
