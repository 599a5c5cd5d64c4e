import pytest

from rankscope import format_pods, format_processes
from trainlog import format_ranges


def test_numbers_as_ranges() -> None:
    assert format_ranges([7, 0, 1, 2, 9, 10]) == "0-2, 7, 9-10"


@pytest.mark.parametrize(("pods", "words"), [((7,), "pod 7"), ((3, 0, 1), "pods 0-1, 3"), ((2, 2), "pod 2")])
def test_pods_have_an_index(pods: tuple[int, ...], words: str) -> None:
    assert format_pods(*pods) == words


def test_a_rank_is_a_process_of_a_pod() -> None:
    assert format_processes((9, 1, 1)) == "rank 9 (pod 1, GPU 1)"
    assert format_processes((9, 1, 1), (12, 1, 4)) == "ranks 9, 12 (pod 1)"
    assert format_processes((3, 0, 3), (9, 1, 1)) == "ranks 3, 9 (pods 0-1)"
