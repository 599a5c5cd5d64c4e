"""Events: reports of controllers about objects, in the fields of the core recorder and of events.k8s.io."""

from msgspec import Struct

from console.kube.objects.meta import ApiSchema, ObjectSchema, OwnerSchema, intern_text, parse_time


class Event(Struct, frozen=True):
    """One Event object; equal events are counted rather than repeated."""

    namespace: str
    name: str
    kind: str = ""  # kind, name and uid of the object it is about
    object_name: str = ""
    object_uid: str = ""
    type: str = "Normal"  # Normal or Warning
    reason: str = ""
    message: str = ""
    count: int = 1
    first: float = 0.0
    last: float = 0.0


class SeriesSchema(ApiSchema):
    count: int | None = None
    last_observed_time: str | None = None


class EventSchema(ObjectSchema):
    involved_object: OwnerSchema | None = None
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: SeriesSchema | None = None


MAX_MESSAGE_CHARACTERS = 4096  # characters that are kept; events.k8s.io allows 1,024


def parse_event(event: EventSchema) -> Event:
    """Build an Event; the creation time stands in for a missing event time."""
    meta, about, series = event.metadata, event.involved_object or OwnerSchema(), event.series or SeriesSchema()
    first = parse_time(event.first_timestamp) or parse_time(event.event_time) or parse_time(meta.creation_timestamp)
    message = event.message or ""
    return Event(
        namespace=intern_text(meta.namespace),
        name=meta.name or "",
        kind=intern_text(about.kind),
        object_name=intern_text(about.name),
        object_uid=intern_text(about.uid),
        type=intern_text(event.type) or "Normal",
        reason=intern_text(event.reason),
        message=message if len(message) <= MAX_MESSAGE_CHARACTERS else f"{message[:MAX_MESSAGE_CHARACTERS]}…",
        count=series.count or event.count or 1,
        first=first,
        last=parse_time(series.last_observed_time) or parse_time(event.last_timestamp) or first,
    )
