import pytest

from console.attach.files.copy_progress import ALL_RANKS, RemotePath, parse_remote_path


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("llama-70b:0:/data", RemotePath("llama-70b", "0", "/data")),
        ("llama-70b:17:", RemotePath("llama-70b", "17", "")),
        ("llama:workers/3:a:b c\n", RemotePath("llama", "workers/3", "a:b c\n")),
        ("llama:all:x", RemotePath("llama", ALL_RANKS, "x")),
        ("llama:*:x", RemotePath("llama", ALL_RANKS, "x")),
        ("pod/web-0:~/x", RemotePath("pod/web-0", "", "~/x")),
        ("./llama:0:x", None),
        ("/llama:0:x", None),
        ("file", None),
        ("C:file", None),
        ("llama:x", None),
        ("Llama:0:x", None),
    ],
)
def test_places_in_pods_are_distinguished_from_paths_of_this_machine(text: str, place: RemotePath | None) -> None:
    assert parse_remote_path(text) == place
    assert place is None or place.is_all_ranks == (place.rank == ALL_RANKS)
