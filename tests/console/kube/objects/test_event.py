from tests.console.kube.objects.recorded import read, recorded


def test_recorded_events_of_both_recorders() -> None:
    found = list(recorded("events").values())
    assert {each.kind for each in found} >= {"Job", "JobSet"}
    assert all(each.last >= each.first > 0 for each in found)
    assert all(each.object_uid and each.reason for each in found)


def test_a_series() -> None:
    found = read(
        "events",
        eventTime="2026-11-21T07:00:00.000000Z",
        series={"count": 7, "lastObservedTime": "2026-11-21T07:01:00.000000Z"},
        involvedObject={"kind": "Pod", "name": "p", "uid": "u"},
        type="Warning",
    )
    assert (found.count, found.last - found.first, found.type, found.kind) == (7, 60.0, "Warning", "Pod")


def test_an_event_without_times_happened_when_it_was_made() -> None:
    assert read("events", metadata={"creationTimestamp": "2026-11-21T07:00:00Z"}).last == 1795244400.0
