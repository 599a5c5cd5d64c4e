"""GPU readings of a job's ranks, network rates, outliers, and the programs' output that they are parsed from (pure).

The output: nvidia-smi's table and CSV, the DCGM exporter's metrics, and RDMA and NVLink counters printed by a script:

    a4-counters 812.31                  seconds since the machine started; the next lines were read then
    a4-rdma mlx5_0/1 RECEIVED SENT      port_rcv_data and port_xmit_data of the kernel: words of 4 bytes
    GPU 0: NVIDIA B200 (UUID: ...)      `nvidia-smi nvlink -gt d`
         Link 0: Data Tx: 5120 KiB

A rate needs two readings; it is None if a counter is missing, was reset, or is N/A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from console.median import median
from trainlog import TextLineSplitter, lazy_pattern, parse_count


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU's values at one moment; None for N/A or missing values."""

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
        if self.memory_used is None or not self.memory_total:
            return None
        return 100 * self.memory_used / self.memory_total

    @property
    def nvlink(self) -> float | None:
        """NVLink traffic in bytes per second, both directions together; None if either is unknown."""
        if self.nvlink_received is None or self.nvlink_sent is None:
            return None
        return self.nvlink_received + self.nvlink_sent

    @property
    def faults(self) -> tuple[str, ...]:
        parts = [f"{self.ecc_uncorrected} uncorrected ECC errors"] if self.ecc_uncorrected else []
        parts += [f"Xid {self.xid}"] if self.xid else []
        parts += [words for bit, words in THROTTLES.items() if (self.throttle or 0) & bit]
        parts += [f"the driver advises: {self.recovery}"] if self.recovery else []
        return tuple(parts)


THROTTLES = {  # clock event reasons that are faults; idling and the power cap are not
    0x08: "hardware clock slowdown (thermal or power)",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake slowdown",
}


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


def mfu(tflops: float | None, accelerator: str) -> float | None:
    """Model FLOPS utilization, as a share of that GPU's peak; None if unknown or impossibly high."""
    peak = peak_tflops(accelerator)
    return tflops / peak if peak and tflops is not None and tflops <= MAX_MFU * peak else None


GpuSource = Literal["", "nvidia-smi", "dcgm"]  # whose readings: of the first, else of the second
NVIDIA_SMI: Final = "nvidia-smi"
DCGM: Final = "dcgm"
STALE_READING_SECONDS = 15.0  # seconds after which a reading is old
HYSTERESIS_SHARE = 0.5  # share of the distance at which a GPU stands out within which it is one of the others again
_COLD_CELSIUS, _HOT_CELSIUS = 30.0, 85.0


@dataclass(frozen=True, slots=True)
class GpuMetric:
    name: str
    title: str
    unit: str
    value: Callable[[Gpu], float | None]
    scale_min: float
    scale_max: float  # the ends of its scale
    low_is_bad: bool  # whether a GPU far below the others is the worst, and not one far above

    def share_of_range(self, gpu: Gpu) -> float | None:
        """The position of the GPU's value in the metric's range, from 0 to 1; None if not measured."""
        value = self.value(gpu)
        if value is None:
            return None
        own = {"power": gpu.power_limit, "clock": gpu.clock_max}.get(self.name)  # its own limit, where it has one
        return min(1.0, max(0.0, (value - self.scale_min) / (((own or self.scale_max) - self.scale_min) or 1)))


GPU_METRICS = (  # in the order in which the key goes through them
    GpuMetric("utilization", "Utilization", "%", lambda gpu: gpu.utilization, 0, 100, True),
    GpuMetric("memory", "Memory", "%", lambda gpu: gpu.memory_share, 0, 100, False),
    GpuMetric("power", "Power", "W", lambda gpu: gpu.power, 0, 1000, True),
    GpuMetric("temperature", "Temperature", "°C", lambda gpu: gpu.temperature, _COLD_CELSIUS, _HOT_CELSIUS, False),
    GpuMetric("clock", "Clock", "MHz", lambda gpu: gpu.clock, 0, 1965, True),
    GpuMetric("nvlink", "NVLink, both ways", "GB/s", lambda gpu: gpu.nvlink / 1e9 if gpu.nvlink is not None else None,
           0, 1800, True),
    GpuMetric("ecc", "ECC", "errors",
              lambda gpu: float(gpu.ecc_uncorrected) if gpu.ecc_uncorrected is not None else None,
           0, 1, False),
)  # fmt: skip


def find_metric(name: str) -> GpuMetric:
    return next(each for each in GPU_METRICS if each.name == name)


@dataclass(frozen=True, slots=True)
class PodGpus:
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
    ranks: tuple[PodGpus, ...] = ()

    @property
    def rdma(self) -> tuple[float | None, float | None]:
        """Bytes per second (received, sent) by all RDMA cards of all pods; None if any is unknown."""
        every = [link for rank in self.ranks for link in rank.rdma]
        if any(rank.gpus and not rank.rdma for rank in self.ranks):
            return None, None
        return sum_rates([each.received for each in every]), sum_rates([each.sent for each in every])

    @property
    def all_gpus(self) -> list[tuple[PodGpus, Gpu]]:
        return [(rank, gpu) for rank in self.ranks for gpu in rank.gpus]

    def outlier_distance(self, metric: GpuMetric) -> float:
        return 0.2 * (metric.scale_max - metric.scale_min)

    def median(self, metric: GpuMetric) -> float | None:
        values = [value for _, gpu in self.all_gpus if (value := metric.value(gpu)) is not None]
        return median(values) if values else None

    def badness_key(self, gpu: Gpu, metric: GpuMetric, median_value: float | None) -> float:
        """A sort key, higher is worse: faults first, then the distance, if known, from the median on the bad side."""
        value = metric.value(gpu)
        if value is None or median_value is None:
            return 1e6 * len(gpu.faults)
        away = median_value - value if metric.low_is_bad else value - median_value
        return 1e6 * len(gpu.faults) + away / ((metric.scale_max - metric.scale_min) or 1)

    def sort_by_badness(self, metric: GpuMetric) -> list[tuple[PodGpus, Gpu]]:
        middle = self.median(metric)
        return sorted(
            self.all_gpus, key=lambda pair: (-self.badness_key(pair[1], metric, middle), pair[0].rank, pair[1].index)
        )

    def is_outlier(self, gpu: Gpu, metric: GpuMetric, mid_value: float | None, *, share: float = 1.0) -> bool:
        """Whether a GPU has a fault, or is worse than `mid_value` by over `share` of the metric's outlier distance."""
        value = metric.value(gpu)
        if gpu.faults:
            return True
        if value is None or mid_value is None:
            return False
        return (mid_value - value if metric.low_is_bad else value - mid_value) > share * self.outlier_distance(metric)

    @property
    def summary(self) -> str:
        every = self.all_gpus
        if not every:
            problems = [rank.problem for rank in self.ranks if rank.problem]
            return problems[0] if problems else "No GPU has been read yet."
        parts = [f"{len(every)} GPUs"]
        for name in ("utilization", "memory", "power", "temperature"):
            what = find_metric(name)
            values = [value for _, gpu in every if (value := what.value(gpu)) is not None]
            if values:
                ends = dict.fromkeys(f"{end:.0f}" for end in (min(values), max(values)))
                parts.append(f"{what.title.lower()} {' to '.join(ends)} {what.unit}")
        received, sent = self.rdma
        if received is not None and sent is not None:
            parts.append(f"RDMA {received / 1e9:.1f} GB/s in, {sent / 1e9:.1f} out")
        faulty = [(rank, gpu) for rank, gpu in every if gpu.faults]
        if faulty:
            rank, gpu = faulty[0]
            more = f" and {len(faulty) - 1} more" if len(faulty) > 1 else ""
            parts.append(f"faults: pod {rank.rank} GPU {gpu.index} ({'; '.join(gpu.faults)}){more}")
        return ", ".join(parts)


class OutlierOrder:
    """The order of ranks with outliers first; a rank changes its position only once it is clearly an outlier."""

    def __init__(self) -> None:
        self._metric_name = ""
        self._faulty: list[int] = []
        self._outliers: list[int] = []

    def sort_ranks(self, board: GpuBoard, metric: GpuMetric) -> list[int]:
        """All ranks: faulty ones first, then outliers, both in the order in which they were found, then the rest."""
        if metric.name != self._metric_name:
            self._metric_name, self._outliers = metric.name, []
        middle = board.median(metric)
        worst = board.sort_by_badness(metric)
        faulty = {rank.rank for rank, gpu in worst if gpu.faults}
        stay = {rank.rank for rank, gpu in worst if board.is_outlier(gpu, metric, middle, share=HYSTERESIS_SHARE)}
        come = [rank.rank for rank, gpu in worst if board.is_outlier(gpu, metric, middle)]
        self._faulty = _merge_order(self._faulty, faulty, [each for each in come if each in faulty])
        self._outliers = _merge_order(self._outliers, stay - faulty, [each for each in come if each not in faulty])
        return list(dict.fromkeys([*self._faulty, *self._outliers, *(rank.rank for rank in board.ranks)]))


def _merge_order(before: list[int], stay: set[int], come: list[int]) -> list[int]:
    return list(dict.fromkeys([*(each for each in before if each in stay), *come]))


_TABLE_LINE_1 = lazy_pattern(
    r"\|\s{1,9}(\d{1,4})\s{1,9}(\S.{0,80}?)\s{1,40}(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f:.]{7,20})\s+(?:On|Off|N/A)\s*\|\s*(\S+)"
)
_TABLE_LINE_2 = lazy_pattern(r"\|\s*\S+\s+(\S+)\s+\S+\s+(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)")
_NUMBER = lazy_pattern(r"([-+]?\d{1,15}(?:\.\d{1,9})?)\s{0,2}(?:%|MiB|MHz|W|C)?")
_HEX_NUMBER = lazy_pattern(r"0x[0-9A-Fa-f]{1,16}")
_CSV_COLUMNS = {  # columns of the CSV that are read, besides index, name and bus
    "utilization.gpu": "utilization",
    "memory.used": "memory_used",
    "memory.total": "memory_total",
    "temperature.gpu": "temperature",
    "power.draw": "power",
    "power.draw.instant": "power",
    "power.limit": "power_limit",
    "enforced.power.limit": "power_limit",
    "clocks.sm": "clock",
    "clocks.current.sm": "clock",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "ecc.errors.corrected.volatile.total": "ecc_corrected",
    "clocks.max.sm": "clock_max",
}


class NvidiaSmiParser:
    """Parses any number of nvidia-smi reports, fed in pieces; the last reading of a GPU counts."""

    def __init__(self) -> None:
        self._splitter = TextLineSplitter()
        self._columns: list[str] = []
        self._begun_gpu: Gpu | None = None
        self._gpus: dict[int, Gpu] = {}

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(self._gpus[index] for index in sorted(self._gpus))

    def feed(self, data: bytes) -> list[Gpu]:
        return [gpu for line in self._splitter.feed(data) if (gpu := self._parse_line(line))]

    def close(self) -> list[Gpu]:
        """Parse an unterminated last line; returns the new readings."""
        return [gpu for line in self._splitter.flush() if (gpu := self._parse_line(line))]

    def _parse_line(self, line: str) -> Gpu | None:
        gpu = (
            self._parse_table_line(line)
            if line.lstrip().startswith("|")
            else self._parse_csv_line(line)
            if "," in line
            else None
        )
        if gpu:
            self._gpus[gpu.index] = gpu
        return gpu

    def _parse_table_line(self, line: str) -> Gpu | None:
        """Parse a line of the table; returns a reading with the second line of each GPU, else None."""
        if found := _TABLE_LINE_1.search(line):
            index, name, bus, ecc = found.groups()
            self._begun_gpu = Gpu(int(index), name, bus=bus, ecc_uncorrected=parse_count(ecc))
            return None
        begun, self._begun_gpu = self._begun_gpu, None
        found = _TABLE_LINE_2.search(line) if begun else None
        if begun is None or found is None:
            return None
        temperature, power, limit, used, total, utilization = (_parse_number(each) for each in found.groups())
        return replace(
            begun,
            temperature=temperature,
            power=power,
            power_limit=limit,
            memory_used=used,
            memory_total=total,
            utilization=utilization,
        )

    def _parse_csv_line(self, line: str) -> Gpu | None:
        cells = [cell.strip() for cell in line.split(",")]
        names = [cell.partition(" [")[0] for cell in cells]
        if "index" in names:
            self._columns = names
            return None
        if len(cells) != len(self._columns):
            return None
        row = dict(zip(self._columns, cells, strict=True))
        index = parse_count(row["index"])
        if index is None:
            return None
        values: dict[str, Any] = {
            field: _parse_number(row[name]) for name, field in _CSV_COLUMNS.items() if name in row
        }
        recovery = row.get("gpu_recovery_action", "")
        throttle = row.get("clocks_event_reasons.active", row.get("clocks_throttle_reasons.active", ""))
        return Gpu(
            index,
            row.get("name", row.get("gpu_name", "")),
            bus=row.get("pci.bus_id", row.get("gpu_bus_id", "")),
            ecc_uncorrected=_to_int(values.pop("ecc_uncorrected", None)),
            ecc_corrected=_to_int(values.pop("ecc_corrected", None)),
            throttle=int(throttle, 16) if _HEX_NUMBER.fullmatch(throttle) else None,
            recovery="" if recovery.strip("[]") in ("None", "N/A") else recovery,
            **values,
        )


def _to_int(number: float | None) -> int | None:
    return int(number) if number is not None else None


def _parse_number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    return float(found.group(1)) if found else None


def parse_nvidia_smi(data: bytes) -> tuple[Gpu, ...]:
    parser = NvidiaSmiParser()
    parser.feed(data)
    parser.close()
    return parser.gpus


_DCGM_SAMPLE = lazy_pattern(r"DCGM_FI_(\w{1,60})\{(.{0,4000})\}\s+([-+]?[\d.]+(?:[eE][-+]?\d+)?|NaN)")
_DCGM_LABEL = lazy_pattern(r'(\w+)="([^"]*)"')
_DCGM_FIELDS = {
    "DEV_GPU_UTIL": "utilization",
    "DEV_FB_USED": "memory_used",
    "DEV_GPU_TEMP": "temperature",
    "DEV_POWER_USAGE": "power",
    "DEV_SM_CLOCK": "clock",
    "DEV_ECC_DBE_VOL_TOTAL": "ecc_uncorrected",
    "DEV_ECC_SBE_VOL_TOTAL": "ecc_corrected",
    "DEV_XID_ERRORS": "xid",
    "DEV_CLOCK_THROTTLE_REASONS": "throttle",
    "PROF_NVLINK_RX_BYTES": "nvlink_received",
    "PROF_NVLINK_TX_BYTES": "nvlink_sent",
}
_INTEGER_FIELDS = ("ecc_uncorrected", "ecc_corrected", "xid", "throttle")
_ENGINE_ACTIVITY = "PROF_GR_ENGINE_ACTIVE"
_DCGM_DIGITS = 6
_DCGM_BLANK = 1 << 46  # numbers from here on are DCGM's way of saying that it has none


def parse_dcgm(text: str) -> tuple[Gpu, ...]:
    """The GPUs of a node by index. Memory in all (MiB) is the sum of used, free and reserved memory."""
    found: dict[int, dict[str, float]] = {}
    names: dict[int, tuple[str, str, str]] = {}
    for line in text.splitlines():
        sample = _DCGM_SAMPLE.match(line)
        labels = dict(_DCGM_LABEL.findall(sample[2])) if sample else {}
        if sample is None or not labels.get("gpu", "").isdecimal() or sample[3] == "NaN":
            continue
        try:
            gpu, value = int(labels["gpu"][:_DCGM_DIGITS]), float(sample[3])
        except ValueError:
            continue
        pod = f"{labels['namespace']}/{labels['pod']}" if labels.get("pod") and labels.get("namespace") else ""
        names[gpu] = labels.get("modelName", ""), labels.get("pci_bus_id", ""), pod
        if abs(value) < _DCGM_BLANK:
            found.setdefault(gpu, {})[sample[1]] = value
    return tuple(_make_gpu(index, *names[index], found.get(index, {})) for index in sorted(names))


def _make_gpu(index: int, name: str, bus: str, pod: str, values: dict[str, float]) -> Gpu:
    known: dict[str, Any] = {field: values[key] for key, field in _DCGM_FIELDS.items() if key in values}
    known |= {field: int(known[field]) for field in _INTEGER_FIELDS if field in known}
    gpu = Gpu(index, name, bus=bus, pod=pod, **known)
    parts = [values[key] for key in ("DEV_FB_USED", "DEV_FB_FREE", "DEV_FB_RESERVED") if key in values]
    if "DEV_FB_USED" in values and "DEV_FB_FREE" in values:
        gpu = replace(gpu, memory_total=sum(parts))
    if gpu.utilization is None and _ENGINE_ACTIVITY in values:
        gpu = replace(gpu, utilization=100 * values[_ENGINE_ACTIVITY])
    return gpu


_COUNTERS_LINE = lazy_pattern(r"a4-counters (\d{1,12}(?:\.\d{1,9})?)")
_RDMA_LINE = lazy_pattern(r"a4-rdma (\S{1,80}) (\d{1,20}) (\d{1,20})")
_GPU_LINE = lazy_pattern(r"GPU (\d{1,4}): ")
_NVLINK_LINE = lazy_pattern(r"\s{0,9}Link \d{1,3}: Data (Tx|Rx): (\d{1,20}) KiB")
_RDMA_WORD_BYTES, _BYTES_PER_KIB = 4, 1024

_Counts = dict[str | int, tuple[int, int]]  # bytes in and out since some moment, by port or by index of the GPU


class NetworkCounters:
    """Parses counters, fed in pieces; rates are computed between the last two complete readings."""

    def __init__(self) -> None:
        self._splitter = TextLineSplitter()
        self._before: tuple[float, _Counts] | None = None
        self._last: tuple[float, _Counts] | None = None
        self._sample_time = 0.0
        self._begun: _Counts | None = None
        self._gpu: int | None = None

    def feed(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            self._parse_line(line)

    def _parse_line(self, line: str) -> None:
        if found := _COUNTERS_LINE.fullmatch(line.strip()):
            self._end_sample()
            self._sample_time, self._begun, self._gpu = float(found[1]), {}, None
        elif self._begun is None:
            return
        elif found := _RDMA_LINE.fullmatch(line.strip()):
            self._begun[found[1]] = int(found[2]) * _RDMA_WORD_BYTES, int(found[3]) * _RDMA_WORD_BYTES
        elif found := _GPU_LINE.match(line):
            self._gpu = int(found[1])
        elif (found := _NVLINK_LINE.fullmatch(line.rstrip())) and self._gpu is not None:
            received, sent = self._begun.get(self._gpu, (0, 0))
            more = int(found[2]) * _BYTES_PER_KIB
            self._begun[self._gpu] = (received + more, sent) if found[1] == "Rx" else (received, sent + more)
        elif not line.startswith((" ", "\t")):  # the GPUs' own table, which comes after
            self._end_sample()

    def _end_sample(self) -> None:
        if self._begun is not None:
            self._before, self._last, self._begun = self._last, (self._sample_time, self._begun), None

    @property
    def rdma_rates(self) -> tuple[LinkRate, ...]:
        """All RDMA ports, also those whose rate is unknown."""
        names = sorted(name for name in (self._last[1] if self._last else ()) if isinstance(name, str))
        return tuple(LinkRate(name, *self.rates_of(name)) for name in names)

    def rates_of(self, name: str | int) -> tuple[float | None, float | None]:
        """Bytes per second (received, sent) of an RDMA port, or of a GPU by its index over all its NVLinks."""
        if self._before is None or self._last is None:
            return None, None
        (began, before), (ended, last) = self._before, self._last
        if name not in before or name not in last or ended <= began:
            return None, None
        rates = [(new - old) / (ended - began) for old, new in zip(before[name], last[name], strict=True)]
        return (rates[0], rates[1]) if min(rates) >= 0 else (None, None)
