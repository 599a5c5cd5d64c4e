"""Rates of network cards and NVLink from two readings of their counters."""

import pytest

from console.metrics.gpu_metrics import Gpu, GpuBoard, LinkRate, NetworkCounters, PodGpus, find_metric, parse_dcgm

TABLE = "index, name\n0, NVIDIA B200\n"


def report(at: float, ports: dict[str, tuple[int, int]], kib: int | str = 0, links: int = 2) -> bytes:
    lines = [f"a4-counters {at:.2f}", *(f"a4-rdma {name} {got} {sent}" for name, (got, sent) in ports.items())]
    for gpu in range(2):
        lines.append(f"GPU {gpu}: NVIDIA B200 (UUID: GPU-1)")
        for link in range(links):
            count = kib if isinstance(kib, str) else kib * (gpu + 1)
            lines += [f"\t Link {link}: Data Tx: {count} KiB", f"\t Link {link}: Data Rx: {count} KiB"]
    return ("\n".join(lines) + "\n" + TABLE).encode()


def counters_of(*reports: bytes, piece: int = 7) -> NetworkCounters:
    counters = NetworkCounters()
    whole = b"".join(reports)
    for at in range(0, len(whole), piece):
        counters.feed(whole[at : at + piece])
    return counters


def test_one_reading_names_the_ports_and_knows_no_rate() -> None:
    counters = counters_of(report(10, {"mlx5_1/1": (5, 5), "mlx5_0/1": (0, 0)}))
    assert counters.rdma_rates == (LinkRate("mlx5_0/1"), LinkRate("mlx5_1/1"))
    assert counters.rates_of(0) == (None, None)


@pytest.mark.parametrize("piece", [1, 13, 10_000])
def test_two_readings_make_rates_in_bytes_a_second(piece: int) -> None:
    first = report(10, {"mlx5_0/1": (1_000, 0)}, 100)
    counters = counters_of(first, report(12, {"mlx5_0/1": (11_000, 2_000)}, 300), piece=piece)
    assert counters.rdma_rates == (LinkRate("mlx5_0/1", 10_000 * 4 / 2, 2_000 * 4 / 2),)
    assert counters.rates_of(0) == (2 * 200 * 1024 / 2, 2 * 200 * 1024 / 2)
    assert counters.rates_of(1) == (2 * 400 * 1024 / 2, 2 * 400 * 1024 / 2)


def test_a_counter_that_was_set_back_is_not_known_until_the_next_reading() -> None:
    ports = [report(at, {"mlx5_0/1": (count, count)}) for at, count in ((1, 500), (2, 10), (3, 110))]
    assert counters_of(*ports[:2]).rdma_rates == (LinkRate("mlx5_0/1"),)
    assert counters_of(*ports).rdma_rates == (LinkRate("mlx5_0/1", 400.0, 400.0),)


def test_what_is_absent_or_not_available_is_not_known() -> None:
    counters = counters_of(report(1, {}, "N/A"), report(2, {}, "N/A"))
    assert counters.rdma_rates == ()
    assert counters.rates_of(0) == (None, None)
    assert counters_of(report(1, {}, 5, links=0), report(2, {}, 5, links=0)).rates_of(0) == (None, None)
    came = counters_of(report(1, {}), report(2, {"mlx5_0/1": (9, 9)}))
    assert came.rdma_rates == (LinkRate("mlx5_0/1"),), "one that came later has one reading"


def test_dcgm_tells_the_rate_itself() -> None:
    labels = '{gpu="0",modelName="NVIDIA B200"}'
    (gpu,) = parse_dcgm(
        f"DCGM_FI_PROF_NVLINK_RX_BYTES{labels} 2e9\nDCGM_FI_PROF_NVLINK_TX_BYTES{labels} 3e9\n"
        f"DCGM_FI_DEV_GPU_UTIL{labels} 99\n"
    )
    assert (gpu.nvlink_received, gpu.nvlink_sent, gpu.nvlink) == (2e9, 3e9, 5e9)
    assert find_metric("nvlink").value(gpu) == 5.0
    (bare,) = parse_dcgm(f"DCGM_FI_DEV_GPU_UTIL{labels} 99\n")
    assert bare.nvlink is None


def test_the_sum_of_all_cards_is_reported_only_where_every_pod_has_them() -> None:
    links = (LinkRate("mlx5_0/1", 2e9, 1e9), LinkRate("mlx5_1/1", 3e9, 1e9))
    one, two = (PodGpus(rank, f"p{rank}", "n", (Gpu(0, utilization=1.0),), rdma=links) for rank in (0, 1))
    assert GpuBoard((one, two)).rdma == (10e9, 4e9)
    assert "RDMA 10.0 GB/s in, 4.0 out" in GpuBoard((one, two)).summary
    without = PodGpus(1, "p1", "n", (Gpu(0),))
    assert GpuBoard((one, without)).rdma == (None, None)
    assert "RDMA" not in GpuBoard((one, without)).summary
    fresh = PodGpus(1, "p1", "n", (Gpu(0),), rdma=(LinkRate("mlx5_0/1"),))
    assert GpuBoard((one, fresh)).rdma == (None, None)
