"""GPU readings of a job's ranks, network rates, and detection of outliers (pure)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Gpu:
    """One reading of one GPU; None for N/A or missing values."""

    index: int
    name: str = ""
    utilization: float | None = None  # percent
    memory_used: float | None = None  # MiB
    memory_total: float | None = None  # MiB
    temperature: float | None = None  # Degrees Celsius
    power: float | None = None  # Watt
    power_limit: float | None = None  # Watt
    clock: float | None = None  # MHz of the streaming multiprocessors
    ecc_uncorrected: int | None = None  # errors since the driver was loaded
    bus: str = ""
    clock_max: float | None = None  # MHz
    ecc_corrected: int | None = None
    throttle: int | None = None  # why its clock is held down: bits of NVML's clock event reasons
    recovery: str = ""  # what the driver advises to recover it; empty: nothing
    xid: int | None = None  # last Xid, where DCGM tells it
    nvlink_received: float | None = None  # bytes a second over all its links
    nvlink_sent: float | None = None  # bytes a second over all its links
    pod: str = ""  # NAMESPACE/NAME of the pod that has it, where DCGM tells it

    @property
    def memory_share(self) -> float | None:
        """Memory in use, in percent."""
        if self.memory_used is None or not self.memory_total:
            return None
        return 100 * self.memory_used / self.memory_total

    @property
    def nvlink(self) -> float | None:
        """NVLink traffic in bytes per second, both directions."""
        if self.nvlink_received is None or self.nvlink_sent is None:
            return None
        return self.nvlink_received + self.nvlink_sent

    @property
    def faults(self) -> tuple[str, ...]:
        said = [f"{self.ecc_uncorrected} uncorrected ECC errors"] if self.ecc_uncorrected else []
        said += [f"Xid {self.xid}"] if self.xid else []
        said += [words for bit, words in THROTTLES.items() if (self.throttle or 0) & bit]
        said += [f"the driver advises: {self.recovery}"] if self.recovery else []
        return tuple(said)


THROTTLES = {  # clock event reasons that are faults; idling and the power cap are not
    0x08: "hardware clock slowdown (thermal or power)", 0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown", 0x80: "hardware power brake slowdown",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LinkRate:
    """Traffic of one port of an RDMA network card."""

    name: str  # card and port: "mlx5_0/1"
    received: float | None = None  # bytes a second; None: not known
    sent: float | None = None  # bytes a second; None: not known


def sum_rates(rates: list[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None


PEAK_TFLOPS = {  # dense BF16, without sparsity, by the beginning of the node's accelerator label
    "nvidia-b200": 2250.0,
    "nvidia-gb200": 2500.0,
    "nvidia-h200": 989.0,
    "nvidia-h100": 989.0,
    "nvidia-a100": 312.0,
    "nvidia-tesla-a100": 312.0,
}
MAX_MFU = 2.0  # times the BF16 peak: FP8 reaches at most twice as much


def peak_tflops(accelerator: str) -> float | None:
    """Dense BF16 TFLOP/s of the GPU with that accelerator label; None if unknown."""
    return next((peak for name, peak in PEAK_TFLOPS.items() if accelerator.startswith(name)), None)


Source = Literal["", "nvidia-smi", "dcgm"]  # whose readings: of the first, else of the second
SMI: Final = "nvidia-smi"
DCGM: Final = "dcgm"
STALE_SECONDS = 15.0  # seconds after which a reading is old
HYSTERESIS_SHARE = 0.5  # share of the distance at which a GPU stands out within which it is one of the others again
_COLD, _HOT = 30.0, 85.0


@dataclass(frozen=True, slots=True)
class GpuMetric:
    """A GPU metric with its unit and range."""

    name: str
    title: str
    unit: str
    value: Callable[[Gpu], float | None]
    least: float
    most: float  # the ends of its scale
    low_is_bad: bool  # whether a GPU far below the others is the worst, and not one far above

    def share_of_range(self, gpu: Gpu) -> float | None:
        """The GPU's value relative to the metric's range, from 0 to 1; None if not measured."""
        value = self.value(gpu)
        if value is None:
            return None
        own = {"power": gpu.power_limit, "clock": gpu.clock_max}.get(self.name)  # its own limit, where it has one
        return min(1.0, max(0.0, (value - self.least) / (((own or self.most) - self.least) or 1)))


METRICS = (  # in the order in which the key goes through them
    GpuMetric("utilization", "Utilization", "%", lambda gpu: gpu.utilization, 0, 100, True),
    GpuMetric("memory", "Memory", "%", lambda gpu: gpu.memory_share, 0, 100, False),
    GpuMetric("power", "Power", "W", lambda gpu: gpu.power, 0, 1000, True),
    GpuMetric("temperature", "Temperature", "°C", lambda gpu: gpu.temperature, _COLD, _HOT, False),
    GpuMetric("clock", "Clock", "MHz", lambda gpu: gpu.clock, 0, 1965, True),
    GpuMetric("nvlink", "NVLink, both ways", "GB/s", lambda gpu: gpu.nvlink / 1e9 if gpu.nvlink is not None else None,
           0, 1800, True),
    GpuMetric("ecc", "ECC", "errors",
              lambda gpu: float(gpu.ecc_uncorrected) if gpu.ecc_uncorrected is not None else None,
           0, 1, False),
)  # fmt: skip


def find_metric(name: str) -> GpuMetric:
    return next(each for each in METRICS if each.name == name)


@dataclass(frozen=True, slots=True)
class RankGpus:
    rank: int
    pod: str
    node: str
    gpus: tuple[Gpu, ...] = ()
    at: float = 0.0  # when they were read, in seconds since the epoch; 0.0: not yet
    source: str = ""  # whose reading it is: "nvidia-smi" or "dcgm"
    problem: str = ""  # why there is no reading; a sentence
    rdma: tuple[LinkRate, ...] = ()  # what goes over its RDMA network cards; none where no counter of them can be read


@dataclass(frozen=True, slots=True)
class GpuBoard:
    ranks: tuple[RankGpus, ...] = ()

    @property
    def rdma(self) -> tuple[float | None, float | None]:
        """Bytes per second (received, sent) by all RDMA cards of all pods; None if any is unknown."""
        every = [link for rank in self.ranks for link in rank.rdma]
        if any(rank.gpus and not rank.rdma for rank in self.ranks):
            return None, None
        return sum_rates([each.received for each in every]), sum_rates([each.sent for each in every])

    @property
    def all_gpus(self) -> list[tuple[RankGpus, Gpu]]:
        return [(rank, gpu) for rank in self.ranks for gpu in rank.gpus]

    def outlier_distance(self, what: GpuMetric) -> float:
        """The distance from the median at which a value counts as an outlier."""
        return 0.2 * (what.most - what.least)

    def median(self, what: GpuMetric) -> float | None:
        values = [value for _, gpu in self.all_gpus if (value := what.value(gpu)) is not None]
        return median(values) if values else None

    def badness_key(self, gpu: Gpu, what: GpuMetric, middle: float | None) -> float:
        """A sort key: faults first, then the distance from the median on the bad side."""
        value = what.value(gpu)
        if value is None or middle is None:
            return 1e6 * len(gpu.faults)
        away = middle - value if what.low_is_bad else value - middle
        return 1e6 * len(gpu.faults) + away / ((what.most - what.least) or 1)

    def sort_by_badness(self, what: GpuMetric) -> list[tuple[RankGpus, Gpu]]:
        middle = self.median(what)
        return sorted(
            self.all_gpus, key=lambda pair: (-self.badness_key(pair[1], what, middle), pair[0].rank, pair[1].index)
        )

    def is_outlier(self, gpu: Gpu, what: GpuMetric, middle: float | None, *, share: float = 1.0) -> bool:
        """Whether a GPU has a fault, or is a bad outlier by `share` of the distance that counts."""
        value = what.value(gpu)
        if gpu.faults:
            return True
        if value is None or middle is None:
            return False
        return (middle - value if what.low_is_bad else value - middle) > share * self.outlier_distance(what)

    @property
    def summary(self) -> str:
        every = self.all_gpus
        if not every:
            problems = [rank.problem for rank in self.ranks if rank.problem]
            return problems[0] if problems else "No GPU has been read yet."
        said = [f"{len(every)} GPUs"]
        for name in ("utilization", "memory", "power", "temperature"):
            what = find_metric(name)
            values = [value for _, gpu in every if (value := what.value(gpu)) is not None]
            if values:
                ends = dict.fromkeys(f"{end:.0f}" for end in (min(values), max(values)))
                said.append(f"{what.title.lower()} {' to '.join(ends)} {what.unit}")
        received, sent = self.rdma
        if received is not None and sent is not None:
            said.append(f"RDMA {received / 1e9:.1f} GB/s in, {sent / 1e9:.1f} out")
        faulty = [(rank, gpu) for rank, gpu in every if gpu.faults]
        if faulty:
            rank, gpu = faulty[0]
            more = f" and {len(faulty) - 1} more" if len(faulty) > 1 else ""
            said.append(f"faults: pod {rank.rank} GPU {gpu.index} ({'; '.join(gpu.faults)}){more}")
        return ", ".join(said)


class OutlierOrder:
    """Orders ranks with outliers first, and moves a rank only when it is a clear outlier."""

    def __init__(self) -> None:
        self._what = ""
        self._faulty: list[int] = []
        self._odd: list[int] = []

    def sort_ranks(self, board: GpuBoard, what: GpuMetric) -> list[int]:
        """All ranks: those with faults, then outliers, in the order in which they came there, then the rest."""
        if what.name != self._what:
            self._what, self._odd = what.name, []
        middle = board.median(what)
        worst = board.sort_by_badness(what)
        faulty = {rank.rank for rank, gpu in worst if gpu.faults}
        stay = {rank.rank for rank, gpu in worst if board.is_outlier(gpu, what, middle, share=HYSTERESIS_SHARE)}
        come = [rank.rank for rank, gpu in worst if board.is_outlier(gpu, what, middle)]
        self._faulty = _merge_order(self._faulty, faulty, [each for each in come if each in faulty])
        self._odd = _merge_order(self._odd, stay - faulty, [each for each in come if each not in faulty])
        return list(dict.fromkeys([*self._faulty, *self._odd, *(rank.rank for rank in board.ranks)]))


def _merge_order(before: list[int], stay: set[int], come: list[int]) -> list[int]:
    return list(dict.fromkeys([*(each for each in before if each in stay), *come]))
