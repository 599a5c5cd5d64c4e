"""Selectors: which objects fit, and what is said of those that cannot be read."""

from typing import Any

import pytest

from practice.objects.api_error import ApiError
from practice.objects.resources import CONFIGMAPS, EVENTS, JOBSETS, NODES, PODS
from practice.objects.selectors import field_predicate, label_predicate

RED = {"metadata": {"labels": {"team": "red", "rank": "3"}}}
BARE: dict[str, Any] = {"metadata": {}}


@pytest.mark.parametrize(
    ("text", "red", "bare"),
    [
        ("team in (red),rank=3", True, False),
        ("rank>2,rank<4", True, False),
        ("team=", False, False),
        ("", True, True),
    ],
)
def test_labels(text: str, red: bool, bare: bool) -> None:
    assert (label_predicate(text)(RED), label_predicate(text)(BARE)) == (red, bare)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=(b", "unable to parse requirement: found '(', expected: identifier"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a,", "found '', expected: identifier after ','"),
    ],
)
def test_labels_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        label_predicate(text)
    assert (refused.value.status, refused.value.message) == (400, message)


def test_fields() -> None:
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a"}, "status": {"phase": "Running"}}
    assert field_predicate("spec.nodeName=a,status.phase!=Failed", PODS)(pod)
    assert not field_predicate("metadata.name!=p", PODS)(pod)
    assert field_predicate("spec.unschedulable=false", NODES)({"metadata": {}, "spec": {}})
    event = {"metadata": {}, "involvedObject": {"name": "p"}, "source": {"component": "kubelet"}}
    assert field_predicate("involvedObject.name=p,source=kubelet", EVENTS)(event)


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (PODS, "field label not supported: spec.x"),
        (JOBSETS, "field label not supported: spec.x"),
        (CONFIGMAPS, '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_fields_nobody_knows(resource: Any, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        field_predicate("spec.x=1", resource)
