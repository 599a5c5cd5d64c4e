"""The table of types: whole, and enough to read a Go client's pod."""

import pytest

from practice.api.api_fields import read_types, type_name
from practice.api.paths_and_versions import SERVED
from practice.api.protobuf import decode_protobuf
from practice.objects.api_error import ApiError

PLAIN = {"string", "int32", "int64", "bool", "bytes", "quantity", "int-or-string", "time", "microtime", "any", "float"}
OTHERS = {"CustomResourceDefinition", "DeviceClass", "ProvisioningRequest", "ResourceClaimTemplate"}
"""Kinds whose fields are not checked."""


def message(*parts: tuple[int, bytes | int]) -> bytes:
    """Protobuf fields by number; everything here is shorter than 128."""
    encoded = b""
    for number, value in parts:
        if isinstance(value, int):
            encoded += bytes([number << 3, value])
        else:
            encoded += bytes([number << 3 | 2, len(value)]) + value
    return encoded


def test_every_type_that_is_named_is_there() -> None:
    known = read_types()
    for name, one in known.items():
        used = [*one.fields.values(), *(numbered.type for numbered in one.numbers.values())]
        for kind in used:
            plain = kind.replace("[]", "").replace("{}", "")
            assert plain in PLAIN or plain in known, f"{name}: {kind}"


def test_every_served_kind_has_its_fields() -> None:
    kinds = {type_name(served.api_version, served.resource.kind): served.resource.kind for served in SERVED.values()}
    assert {kind for name, kind in kinds.items() if name not in read_types()} == OTHERS


def test_a_pod_with_a_volume_and_a_port() -> None:
    claim = message((1, b"claim"))
    volume = message((1, b"data"), (2, message((10, claim))))
    port = message((3, 80), (2, 0), (4, b"TCP"))
    limits = message((1, message((1, b"cpu"), (2, message((1, b"2"))))))
    container = message((1, b"main"), (2, b"image"), (6, port), (8, limits))
    spec = message((1, volume), (2, container), (4, 0))
    pod = message((1, message((1, b"p"))), (2, spec))
    body = b"k8s\x00" + message((1, message((1, b"v1"), (2, b"Pod"))), (2, pod))
    assert decode_protobuf(body) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}],
            "containers": [
                {
                    "name": "main",
                    "image": "image",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "2"}},
                }
            ],
            # An optional number keeps its zero: end at once is not the same as not saying.
            "terminationGracePeriodSeconds": 0,
        },
    }


def test_a_kind_nobody_knows_is_refused() -> None:
    head = message((1, b"apps/v1"), (2, b"ReplicaSet"))
    with pytest.raises(ApiError) as refused:
        decode_protobuf(b"k8s\x00" + message((1, head)))
    assert refused.value.status == 415
