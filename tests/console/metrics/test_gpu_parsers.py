"""GPUs as nvidia-smi streams them and as the DCGM exporter tells them, and which of them look worse than the rest."""

from dataclasses import replace

from console.metrics.gpu_metrics import GPU_METRICS, Gpu, GpuBoard, PodGpus, find_metric, parse_dcgm, parse_nvidia_smi

H200 = """\
index, name, pci.bus_id, utilization.gpu [%], memory.used [MiB], memory.total [MiB], temperature.gpu, power.draw [W], \
power.limit [W], clocks.current.sm [MHz], clocks.max.sm [MHz], ecc.errors.uncorrected.volatile.total, \
ecc.errors.corrected.volatile.total, clocks_event_reasons.active, gpu_recovery_action
0, NVIDIA H200, 00000000:00:06.0, 0 %, 0 MiB, 143771 MiB, 40, 96.16 W, 700.00 W, 345 MHz, 1980 MHz, 0, 0, \
0x0000000000000001, None
1, NVIDIA H200, 00000000:00:07.0, 0 %, 0 MiB, 143771 MiB, 38, 99.31 W, 700.00 W, 345 MHz, 1980 MHz, 3, [N/A], \
0x0000000000000040, Reset
"""
DCGM = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",pci_bus_id="00000000:8F:00.0",device="nvidia0",modelName="NVIDIA B200"} 1965
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",pci_bus_id="00000000:8F:00.0",device="nvidia0",modelName="NVIDIA B200"} 97
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",modelName="NVIDIA B200",pci_bus_id="00000000:8F:00.0"} 141200
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-1",modelName="NVIDIA B200",pci_bus_id="00000000:8F:00.0"} 42159
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",modelName="NVIDIA B200",err_code="79",pci_bus_id="00000000:8F:00.0"} 79
DCGM_FI_DEV_GPU_TEMP{gpu="10",UUID="GPU-2",modelName="NVIDIA B200",pci_bus_id="00000000:90:00.0"} 9223372036854775794
DCGM_FI_DEV_POWER_USAGE{gpu="10",UUID="GPU-2",modelName="NVIDIA B200",pci_bus_id="00000000:90:00.0"} 8.5e2
a line of nothing
"""


def test_the_stream_of_a_real_machine() -> None:
    well, ill = parse_nvidia_smi(H200.encode())
    assert (well.clock, well.clock_max, well.throttle, well.recovery, well.faults) == (345, 1980, 1, "", ())
    assert ill.ecc_corrected is None
    assert ill.faults == (
        "3 uncorrected ECC errors", "hardware thermal slowdown", "the driver advises: Reset",
    )  # fmt: skip


def test_metrics_of_dcgm() -> None:
    first, second = parse_dcgm(DCGM)
    assert (first.index, first.name, first.utilization, first.memory_total) == (0, "NVIDIA B200", 97, 183359)
    assert first.faults == ("Xid 79",)
    assert (second.index, second.temperature, second.power) == (10, None, 850), "DCGM's blank is no temperature"
    assert parse_dcgm("") == ()


def board() -> GpuBoard:
    usual = Gpu(0, "B200", 97, 100.0, 200.0, 60, 900, 1000, 1900, 0)
    idle = replace(usual, index=1, utilization=0.0, power=150.0)
    ecc = replace(usual, index=0, ecc_uncorrected=2)
    return GpuBoard((PodGpus(0, "a", "n0", (usual, idle)), PodGpus(1, "b", "n1", (ecc, replace(usual, index=1)))))


def test_the_worst_comes_first() -> None:
    order = [(rank.rank, gpu.index) for rank, gpu in board().sort_by_badness(find_metric("utilization"))]
    assert order == [(1, 0), (0, 1), (0, 0), (1, 1)]
    hot = find_metric("temperature")
    rank, gpu = board().sort_by_badness(hot)[0]
    assert (rank.rank, gpu.index) == (1, 0)


def test_the_board_in_words() -> None:
    assert board().summary == (
        "4 GPUs, utilization 0 to 97 %, memory 50 %, power 150 to 900 W, temperature 60 °C, "
        "faults: pod 1 GPU 0 (2 uncorrected ECC errors)"
    )
    assert GpuBoard((PodGpus(0, "a", "n", problem="There is no nvidia-smi in this image."),)).summary.startswith(
        "There is"
    )
    assert {each.name for each in GPU_METRICS} == {
        "utilization",
        "memory",
        "power",
        "temperature",
        "clock",
        "ecc",
        "nvlink",
    }
