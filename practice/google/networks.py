"""Compute Engine's REST API: routers with Cloud NAT, firewall rules, reservations."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from practice.google.cloud import PROJECT, REGION, ZONE, PracticeGoogle

_NETWORK = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/global/networks/practice-net"
_SERVICE = "compute.googleapis.com"


class NetworkResources:
    """The networks, subnets and NATs of practice Google, which tests may remove."""

    def __init__(self, google: PracticeGoogle) -> None:
        self.world = google
        nat = {"name": "practice-nat", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}
        self.routers: list[dict[str, Any]] = [{"name": "practice-router", "network": _NETWORK, "nats": [nat]}]
        self.reservations: dict[tuple[str, str], dict[str, Any]] = {
            (ZONE, "practice-a4"): {
                "name": "practice-a4",
                "status": "READY",
                "deploymentType": "DENSE",
                "specificReservationRequired": True,
                "specificReservation": {
                    "count": "18",
                    "inUseCount": "16",
                    "instanceProperties": {"machineType": "a4-highgpu-8g"},
                },
            }
        }
        self.firewalls: list[dict[str, Any]] = [
            {
                "name": "practice-internal",
                "network": _NETWORK,
                "direction": "INGRESS",
                "priority": 1000,
                "disabled": False,
                "sourceRanges": ["10.0.0.0/8"],
                "allowed": [{"IPProtocol": "tcp", "ports": ["0-65535"]}, {"IPProtocol": "udp"}, {"IPProtocol": "icmp"}],
            }
        ]


def _check_access(google: PracticeGoogle, request: web.Request) -> web.Response | None:
    project = google.projects.get(request.match_info["project"])
    if project is None or not project.is_readable:
        return web.json_response({"error": {"code": 403, "message": "Permission denied"}}, status=403)
    if _SERVICE not in project.enabled:
        detail = {"reason": "SERVICE_DISABLED", "metadata": {"service": _SERVICE}}
        return web.json_response({"error": {"code": 403, "details": [detail]}}, status=403)
    return None


def routes(google: PracticeGoogle) -> list[web.RouteDef]:
    fabric = google.service_state(NetworkResources)

    def list_response(request: web.Request, items: list[dict[str, Any]]) -> web.Response:
        if refused := _check_access(google, request):
            return refused
        size = min(int(request.query.get("maxResults", "500")), google.page)
        start = int(request.query.get("pageToken", "0"))
        more = {"nextPageToken": str(start + size)} if start + size < len(items) else {}
        return web.json_response({"items": items[start : start + size], **more})

    async def routers(request: web.Request) -> web.Response:
        here = request.match_info["project"] == PROJECT and request.match_info["region"] == REGION
        return list_response(request, fabric.routers if here else [])

    async def firewalls(request: web.Request) -> web.Response:
        return list_response(request, fabric.firewalls if request.match_info["project"] == PROJECT else [])

    async def reservation(request: web.Request) -> web.Response:
        if refused := _check_access(google, request):
            return refused
        found = fabric.reservations.get((request.match_info["zone"], request.match_info["name"]))
        if found is None or request.match_info["project"] != PROJECT:
            return web.json_response({"error": {"code": 404, "message": "not found"}}, status=404)
        return web.json_response(found)

    return [
        web.get("/compute/v1/projects/{project}/zones/{zone}/reservations/{name}", reservation),
        web.get("/compute/v1/projects/{project}/regions/{region}/routers", routers),
        web.get("/compute/v1/projects/{project}/global/firewalls", firewalls),
    ]
