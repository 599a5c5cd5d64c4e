from __future__ import annotations

import pytest

from console.attach.files.entries import ALL, RemotePlace, remote_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("llama-70b:0:/data", RemotePlace("llama-70b", "0", "/data")),
        ("llama-70b:17:", RemotePlace("llama-70b", "17", "")),
        ("llama:workers/3:a:b c\n", RemotePlace("llama", "workers/3", "a:b c\n")),
        ("llama:all:x", RemotePlace("llama", ALL, "x")),
        ("llama:*:x", RemotePlace("llama", ALL, "x")),
        ("pod/web-0:~/x", RemotePlace("pod/web-0", "", "~/x")),
        ("./llama:0:x", None),
        ("/llama:0:x", None),
        ("file", None),
        ("C:file", None),
        ("llama:x", None),
        ("Llama:0:x", None),
    ],
)
def test_places_in_pods_are_told_from_paths_of_this_machine(text: str, place: RemotePlace | None) -> None:
    assert remote_place(text) == place
    assert place is None or place.everywhere == (place.rank == ALL)
