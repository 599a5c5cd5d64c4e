"""Who may do what: refusals in the words of RBAC, and the question asked beforehand."""

import aiohttp
import pytest

from tests.contract.client import Api, Object
from tests.contract.cluster import CORE, Cluster

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REFUSALS = [
    ("GET", "/api/v1/secrets", 'secrets is forbidden: User "U" cannot list resource "secrets" in API group "" '
     "at the cluster scope"),
    ("GET", "/api/v1/namespaces/default/configmaps", 'configmaps is forbidden: User "U" cannot list resource '
     '"configmaps" in API group "" in the namespace "default"'),
    ("GET", "/api/v1/namespaces/default/configmaps/x", 'configmaps "x" is forbidden: User "U" cannot get resource '
     '"configmaps" in API group "" in the namespace "default"'),
    ("DELETE", "/api/v1/namespaces/default/pods/x", 'pods "x" is forbidden: User "U" cannot delete resource "pods" '
     'in API group "" in the namespace "default"'),
    ("DELETE", "/api/v1/namespaces/default/pods", 'pods is forbidden: User "U" cannot deletecollection resource '
     '"pods" in API group "" in the namespace "default"'),
    ("GET", "/api/v1/namespaces/default/pods/x/exec?command=ls", 'pods "x" is forbidden: User "U" cannot get resource '
     '"pods/exec" in API group "" in the namespace "default"'),
    ("POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", "jobsets.jobset.x-k8s.io is forbidden: "
     'User "U" cannot create resource "jobsets" in API group "jobset.x-k8s.io" in the namespace "default"'),
    ("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", 'clusterqueues.kueue.x-k8s.io is forbidden: User "U" cannot '
     'list resource "clusterqueues" in API group "kueue.x-k8s.io" at the cluster scope'),
]  # fmt: skip


def review(verb: str, resource: str, **attributes: str) -> Object:
    asked = {"verb": verb, "resource": resource, **attributes}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    return {**kind, "spec": {"resourceAttributes": asked}}


@pytest.mark.parametrize(("method", "path", "message"), REFUSALS, ids=[str(number) for number in range(len(REFUSALS))])
async def test_what_a_reader_may_not(reader: Api, cluster: Cluster, method: str, path: str, message: str) -> None:
    answer = await reader.send(method, path, {} if method == "POST" else None)
    assert answer.refused(403, "Forbidden") == message.replace('"U"', f'"{cluster.reader}"')


async def test_what_a_reader_may(reader: Api) -> None:
    assert (await reader.get(f"{CORE}/pods")).status == 200
    assert (await reader.get(f"{CORE}/nodes")).status == 200


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        (review("list", "pods"), True),
        (review("get", "pods", subresource="log", namespace="default"), True),
        (review("create", "pods", namespace="default"), False),
        (review("create", "pods", subresource="exec", namespace="default"), False),
        (review("get", "pods", subresource="exec", namespace="default"), False),
        (review("patch", "nodes"), False),
        (review("list", "jobsets", group="jobset.x-k8s.io"), True),
        (review("delete", "jobsets", group="jobset.x-k8s.io", namespace="default"), False),
        (review("list", "clusterqueues", group="kueue.x-k8s.io"), False),
    ],
)
async def test_a_reader_can_ask_first(reader: Api, body: Object, allowed: bool) -> None:
    answer = await reader.create(REVIEWS, body)
    assert answer.status == 201
    assert answer.made["status"]["allowed"] is allowed


async def test_an_administrator_may_everything(api: Api) -> None:
    answer = await api.create(REVIEWS, review("delete", "nodes"))
    assert answer.made["status"]["allowed"] is True


async def test_a_token_nobody_gave_is_refused(api: Api) -> None:
    """Over a connection without any certificate of ours."""
    trust = api.login.trust.__class__(api.login.trust.protocol)
    trust.load_verify_locations(cadata="".join(_pem(each) for each in api.login.trust.get_ca_certs(binary_form=True)))
    headers = {"Authorization": "Bearer nobody-gave-this"}
    connector = aiohttp.TCPConnector(ssl=trust)
    async with (
        aiohttp.ClientSession(api.login.server, connector=connector) as http,
        http.get(f"{CORE}/pods", headers=headers) as response,
    ):
        status = await response.json()
    assert (status["code"], status["reason"], status["message"]) == (401, "Unauthorized", "Unauthorized")


def _pem(certificate: bytes) -> str:
    import ssl

    return ssl.DER_cert_to_PEM_cert(certificate)
