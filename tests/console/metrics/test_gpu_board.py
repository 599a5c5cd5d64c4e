"""Which ranks of the heat map come first, over many readings."""

from dataclasses import replace

from console.metrics.gpu_metrics import Gpu, GpuBoard, OutlierOrder, PodGpus, find_metric

BUSY = Gpu(0, "NVIDIA B200", 97, 90_000, 180_000, 62, 900, 1000, 1900, 0)


def board(*use: float, ecc: tuple[int, ...] = ()) -> GpuBoard:
    return GpuBoard(
        tuple(
            PodGpus(at, f"p{at}", "node", (replace(BUSY, utilization=each, ecc_uncorrected=int(at in ecc)),), 1.0)
            for at, each in enumerate(use)
        )
    )


def test_ranks_of_a_healthy_job_stay_in_place_and_who_stands_out_comes_and_goes_once() -> None:
    first, what = OutlierOrder(), find_metric("utilization")
    assert first.sort_ranks(board(99, 95, 97, 91, 98), what) == [0, 1, 2, 3, 4]
    assert first.sort_ranks(board(91, 99, 95, 97, 98), what) == [0, 1, 2, 3, 4]
    assert first.sort_ranks(board(99, 95, 97, 70, 98), what) == [3, 0, 1, 2, 4]
    assert first.sort_ranks(board(99, 95, 97, 82, 98), what) == [3, 0, 1, 2, 4]  # not yet one of the others again
    assert first.sort_ranks(board(99, 95, 97, 90, 98), what) == [0, 1, 2, 3, 4]
    assert first.sort_ranks(board(99, 95, 97, 82, 98), what) == [0, 1, 2, 3, 4]  # and not one that stands out


def test_ranks_in_front_do_not_change_places_and_faults_come_before_them() -> None:
    first, what = OutlierOrder(), find_metric("utilization")
    assert first.sort_ranks(board(99, 40, 97, 60, 98, 97, 96), what)[:3] == [1, 3, 0]
    assert first.sort_ranks(board(99, 60, 97, 40, 98, 97, 96), what)[:3] == [1, 3, 0]
    assert first.sort_ranks(board(99, 60, 97, 40, 98, 97, 96, ecc=(4,)), what) == [4, 1, 3, 0, 2, 5, 6]
    assert first.sort_ranks(board(99, 60, 97, 40, 98, 97, 96), find_metric("power")) == [0, 1, 2, 3, 4, 5, 6]
