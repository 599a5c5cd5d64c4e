"""Output of training programs as other people posted it: `train/` and `more/t*`."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.corpus.verdict import Case, judge
from trainlog import RunReader, TrainingParser, parse_training


class Log(NamedTuple):
    """What stands in one log."""

    runs: list[list[tuple[int | None, float | None]]]
    """Of each run its steps: number and loss."""
    last: dict[str, float] = {}  # noqa: RUF012  # a default of a tuple's field; nobody writes to it
    """What else is said of the last step; of `FIELDS` whatever is not there is not said."""
    nan: Sequence[int] = ()
    """Places of the steps that are alarms."""


FIELDS = ("total", "grad_norm", "lr", "step_time_s", "tflops_per_gpu", "tokens_per_s", "skipped")
PIECES = (1, 7, 64, 1000)
"""Bytes that arrive at once: what is read must not depend on it."""

# beginning of the file's name: what it holds
LOGS = {
    "35": Log([[(1, 0.29145688)]], {"total": 1, "grad_norm": 9.8802309, "lr": 1e-06}),
    "36": Log([[(None, 32.52), (None, 1.612), (None, 0.7142)]], {"grad_norm": 0.1109, "lr": 9.992e-05}),
    "37": Log([[(None, 2.272), (None, 1.823), (None, 1.581)]], {"grad_norm": 1.305, "lr": 0.0001613}),
    "38": Log([[(50, 1.136), (None, 0.8053), (None, 0.4572)]], {"lr": 5.164e-07}),
    "39": Log([[(None, 80.8002), (None, 0.0)]], {"grad_norm": math.nan, "lr": 4.995131923687488e-05}, nan=[0, 1]),
    "40": Log(
        [[(12500, 0.0), (13000, 0.0)]], {"total": 13605, "grad_norm": math.nan, "lr": 2.223447262036016e-06}, nan=[0, 1]
    ),
    "41": Log([[(None, 0.0), (None, 0.0)]], {"grad_norm": math.nan, "lr": 0.00018830858367134594}, nan=[0, 1]),
    "42": Log(
        [[(5, 1.4229)]],
        {"total": 300, "grad_norm": 0.7704815864562988, "lr": 4.997807075247146e-05, "tokens_per_s": 1828.21},
    ),
    "43": Log(
        [[(None, 3.2374)]], {"grad_norm": 12.05206298828125, "lr": 9.874639560909118e-06, "tokens_per_s": 82.249}
    ),
    "44": Log([[(None, 0.6931)]], {"lr": 5.000000000000001e-07}),
    "45": Log([[(None, 0.8017)]], {"grad_norm": 1.164, "lr": 1.515e-06}),
    "46": Log(
        [
            [
                (1, 2.605958),
                (2, 2.688647),
                (3, 2.653257),
                (4, 2.656384),
                (5, 2.571362),
                (6, 2.561039),
                (7, 2.537825),
                (8, 2.645642),
                (9, 2.549589),
                (10, 2.557783),
            ]
        ],
        {
            "skipped": 0,
            "total": 2000,
            "grad_norm": 0.144,
            "lr": 2.999833e-05,
            "step_time_s": 10.7206,
            "tflops_per_gpu": 133.7,
        },
    ),
    "47": Log(
        [[(40, 10.93495), (60, 10.51737), (80, 9.87066)]],
        {"skipped": 0, "total": 40000, "grad_norm": 1.9, "lr": 4.8e-05, "step_time_s": 0.6377, "tflops_per_gpu": 30.5},
    ),
    "48": Log(
        [[(1, 11.92634)]],
        {
            "skipped": 0,
            "total": 24000,
            "grad_norm": 5.96,
            "lr": 1.5e-06,
            "step_time_s": 271.607,
            "tflops_per_gpu": 40.4,
        },
    ),
    "49": Log(
        [[(5, 13.4424)]],
        {"skipped": 0, "total": 100, "grad_norm": 2.87, "lr": 4.134e-07, "step_time_s": 15.8, "tflops_per_gpu": 490.0},
    ),
    "50": Log(
        [[(50, 8.114214)]],
        {"skipped": 0, "total": 50, "grad_norm": 0.042, "lr": 3e-05, "step_time_s": 9.089, "tflops_per_gpu": 663.5},
    ),
    "51": Log(
        [
            [
                (1, 12.4153),
                (2, 12.3984),
                (3, 12.3513),
                (4, 12.3057),
                (5, 12.2364),
                (6, 12.1519),
                (7, 12.0584),
                (8, 11.8934),
                (9, 11.7361),
                (10, 11.5838),
                (11, 11.3803),
                (12, 11.2006),
                (13, 11.0067),
                (14, 10.8099),
                (15, 10.6878),
                (16, 10.5777),
                (17, 10.45),
                (18, 10.3665),
            ]
        ],
        {"grad_norm": 8.8775, "tflops_per_gpu": 315.69, "tokens_per_s": 6255.0},
    ),
    "52": Log(
        [
            [
                (1, 11.6715),
                (2, 9.9699),
                (3, 11.5645),
                (4, 16.148),
                (5, 7.372),
                (6, 13.0652),
                (7, 7.518),
                (8, 10.3346),
                (9, 8.3097),
                (10, 6.8966),
            ]
        ],
        {"grad_norm": 53.453, "tflops_per_gpu": 71.98, "tokens_per_s": 1764.0},
    ),
    "53": Log([[(28, 11.77), (29, 11.69), (30, 12.12)]], {"grad_norm": math.nan}, nan=[2]),
    "54": Log([[(1, 11.8432), (10, 9.3421), (20, 7.8234), (30, 6.9123)]], {"tokens_per_s": 21511.0}),
    "55": Log([[(700, 0.7052), (8200, 0.5149)]], {"tokens_per_s": 1567390.0}),
    "56": Log(
        [[(0, 0.5288), (1, 0.6615), (2, 0.4545), (3, 0.4423), (4, 0.5129), (5, 0.4035), (6, 0.4685), (7, 0.5455)]],
        {"lr": 0.0001, "step_time_s": 0.4331},
    ),
    "57": Log([[(28, 2.778), (29, 2.782), (30, 2.709)]], {"total": 100, "lr": 6e-06, "step_time_s": 0.1915}),
    "58": Log([[(10, None), (450, None)]], {"skipped": 0, "lr": 5.192627993341359e-07}),
    "59": Log([[(2400, 1.209), (2600, 1.222), (2800, 1.247)], [(6000, None)]], {"lr": 0.001, "skipped": 10}),
    "60": Log([[(7400, 2.0282)]], {"total": 20000, "step_time_s": 0.08045}),
    "61": Log(
        [[(0, 2.8581), (1, 2.421), (2, 2.704), (3, 2.7455), (4, 2.8193), (5, 2.352), (6, 2.883)]],
        {"step_time_s": 21.59665},
    ),
    "62": Log(
        [[(0, 0.6932), (1, 0.693), (2, 0.6931), (3, 0.693), (2426, 0.2679), (2427, 0.2499)]],
        {"lr": 2.045219e-09, "step_time_s": 0.01329},
    ),
    "63": Log([[(1, 0.05410893690350349)]], {"grad_norm": 0.167236328125}),
    "64": Log([[(470, -0.005)]], {"grad_norm": 1.992, "lr": 1.0000000000000002e-06}),
    "65": Log(
        [[(822, 3.992881), (823, 7.281394), (824, math.nan), (825, math.nan)]],
        {"total": 20000, "grad_norm": math.nan, "lr": 0.000147, "step_time_s": 2.1099, "skipped": 2},
        nan=[2, 3],
    ),
    "66": Log([]),
    "67": Log(
        [[(1, 1.4749825), (5, 1.72185874), (10, 1.35411816)]], {"total": 94, "grad_norm": 0.95349097, "lr": 9.922e-05}
    ),
    "68": Log(
        [[(None, 1.8412), (None, 1.702), (None, 1.6551), (None, 9.8813), (None, math.nan)]],
        {"grad_norm": math.nan, "lr": 2e-05},
        nan=[4],
    ),
    "69": Log(
        [[(2, 11.77651), (3, 11.77523)]],
        {"skipped": 0, "total": 500000, "grad_norm": 0.476, "lr": 6e-07, "step_time_s": 1.7829},
    ),
    "70": Log([[(1, 1.234), (2, 0.9)]], {"lr": 0.0, "total": 2, "grad_norm": 0.7}),
    "t02": Log(
        [[(22, 6.225), (23, 6.2236), (24, 6.1861), (25, 6.1657)]], {"tflops_per_gpu": 18.69, "tokens_per_s": 197367.0}
    ),
    "t04": Log(
        [[(33892, 2.17), (34892, 2.2), (35892, 3.52), (40892, 1.47), (42115, 1.97)]], {"lr": 0.001, "grad_norm": 2.5053}
    ),
    "t06": Log(
        [[(574, 11.806), (575, 11.829), (576, 11.825), (577, 11.844)]],
        {"lr": 0.00025, "grad_norm": 0.412, "step_time_s": 1.1},
    ),
    "t08": Log([[(1295, 1.0692), (1296, 1.2193), (1297, 1.4059)]], {"total": 36234, "lr": 0.00029012010848508327}),
    "t09": Log(
        [[(None, 1.5199), (None, 1.5383), (None, 1.5237), (None, 1.6987), (None, 1.4719)]],
        {"lr": 4.9752e-05, "tokens_per_s": 445.15},
    ),
    "t11": Log(
        [[(300, 1163.0), (310, 1151.0), (320, 1144.0)]], {"grad_norm": 40.2, "lr": 0.0001, "step_time_s": 0.343}
    ),
    "t13": Log(
        [[(2, 12.72276), (3, 12.6975), (4, 12.5052)]],
        {"total": 4, "grad_norm": 15.292, "lr": 3.9e-07, "step_time_s": 0.5587, "tflops_per_gpu": 99.8, "skipped": 0},
    ),
    "t15": Log([[(2, 0.001)]], {"lr": 0.0, "grad_norm": 0.069, "step_time_s": 96.551}),
    "t17": Log([[(1, 1.577), (2, 1.761), (30, 1.162)]]),
    "t19": Log([[(610140, 2.846), (610150, 2.75), (610160, 2.815), (610170, 2.86), (610200, 2.857)]]),
    "t21": Log(
        [
            [
                (2872, 0.6953772306442261),
                (2922, 2.592996120452881),
                (2972, 1.0189845561981201),
                (3022, 0.8280353546142578),
            ]
        ],
        {"lr": 1.493118986725125e-05},
    ),
    "t23": Log([[(120, 1.233), (121, 1.288), (122, 1.333)]], {"total": 150, "lr": 3e-05, "step_time_s": 0.03215}),
    "t25": Log(
        [[(None, 4.75), (None, 2.0312), (None, 0.8984), (None, 0.4102), (None, 0.2031)]],
        {"grad_norm": 11.8125, "lr": 4.340990257669732e-06},
    ),
    "t27": Log(
        [[(122, 2.50422), (123, 2.493043), (125, 2.477393)]],
        {"total": 250000, "grad_norm": 0.356, "lr": 9.375e-06, "step_time_s": 89.0752, "skipped": 0},
    ),
    "t29": Log(
        [[(1, 6.700717)]],
        {"total": 10, "grad_norm": 117.718, "lr": 3e-05, "step_time_s": 7.0373, "tflops_per_gpu": 24.7, "skipped": 0},
    ),
    "t31": Log(
        [[(9, 0.6974), (10, 0.8534), (11, 0.6172), (12, 0.6357), (15, 0.7918)]],
        {"grad_norm": 1.1589, "lr": 1e-05, "tokens_per_s": 20316.81},
    ),
    "t33": Log([[(816, 0.00090751051902771), (832, -0.0024606515653431416)]], {"lr": 1.904761904761905e-06}),
    "t35": Log(
        [[(1, 2.0439305901527405), (2, 1.5403059720993042), (3, 2.153505563735962)]],
        {"lr": 8.999999999999999e-06, "tokens_per_s": 348.604248046875},
    ),
    "t37": Log(
        [[(2, -0.02529132), (3, -0.009724231)]],
        {"total": 624, "grad_norm": 70.011, "lr": 9.999429e-07, "step_time_s": 3.9538, "skipped": 0},
    ),
    "t39": Log([[(56, 0.23179118), (57, 0.21862793)]], {"total": 176, "grad_norm": 0.73740131, "lr": 8.6e-07}),
    "t41": Log([[(0, 0.0), (1, 0.0)]]),
    "t43": Log(
        [[(8, 10.110173), (9, 9.975765), (10, 9.798287), (11, 9.578386)]],
        {"total": 500, "step_time_s": 2.49023, "tokens_per_s": 105269.0},
    ),
    "t45": Log([[(1, -0.0889), (2, 0.161)]], {"total": 2, "lr": 1.1e-06}),
    "t47": Log([[(1, 10.473), (2, 10.224), (3, 10.047), (4, 9.926)]], {"total": 18, "step_time_s": 4.47}),
    "t49": Log([[(4, 163.55), (5, 107.16)]], {"lr": 0.00012}),
    "t51": Log([[(9, 0.0)]], {"step_time_s": 1.341, "tflops_per_gpu": 257.929, "tokens_per_s": 36653.244}),
    "t53": Log(
        [[(10, 10.0966), (20, 9.16), (30, 7.679)]], {"total": 1000, "step_time_s": 0.152, "tokens_per_s": 107783.0}
    ),
    "t55": Log([[(1, 11.25), (2, 10.73)]], {"total": 739328, "tokens_per_s": 45538.0}),
    "t57": Log(
        [[(8859, 0.001), (8860, 0.0017)]],
        {
            "total": 96000,
            "lr": 9.7913e-06,
            "step_time_s": 16.3557,
            "tflops_per_gpu": 33.9602,
            "tokens_per_s": 1001.7291,
        },
    ),
    "t59": Log(
        [[(1, 12.0635252), (2, 12.05887604)]],
        {"lr": 3e-06, "step_time_s": 1 / 3.913, "tokens_per_s": 4006.9441, "tflops_per_gpu": 12.48},
    ),
    "t61": Log([[(10, 1.5980545)]], {"lr": 5e-06, "step_time_s": 1 / 0.012}),
    "t63": Log(
        [[(1, 11.63248062133789), (2, 11.60248062133789)]],
        {
            "lr": 8.000000000000001e-07,
            "tflops_per_gpu": 187.12241336587493,
            "grad_norm": 22.297677981215344,
            "tokens_per_s": 3927.95,
        },
    ),
    "t65": Log([[(1, 0.0023), (2, 0.0019)]], {"total": 2, "step_time_s": 8.0}),
}


def cases(folder: Path) -> list[Case]:
    """A case for each log of the table above, or that is there without being in it."""
    paths = {
        path.name.partition("-")[0]: path
        for pattern in ("train/*.txt", "more/t*.txt")
        for path in sorted(folder.glob(pattern))
    }
    tables = [
        judge(path.name, {"steps": ()}, {"steps": parse_training(path.read_bytes())}, understood=True)
        for path in sorted(folder.glob("nccl/*.txt"))
    ]
    wrong = [case for case in tables if case.why]
    return [*(_case(number, paths.get(number), LOGS.get(number)) for number in sorted({*paths, *LOGS})), *wrong]


def _case(number: str, path: Path | None, log: Log | None) -> Case:
    if path is None or log is None:
        return judge(number, {"file": "there, and in the table of this module"}, {}, understood=False)
    data = path.read_bytes()
    runs = parse_training(data)
    steps = [step for run in runs for step in run.steps]
    wanted: dict[str, Any] = {"runs": log.runs}
    read: dict[str, Any] = {"runs": [[step[:3:2] for step in run.steps] for run in runs]}
    if len(steps) == sum(map(len, log.runs)):  # else places say nothing
        wanted["nan"] = repr([*log.nan])
        read["nan"] = repr([at for at, step in enumerate(steps) if step.nan])
    if log.runs:
        wanted |= {name: log.last.get(name) for name in FIELDS}
        read |= {name: getattr(steps[-1], name) if steps else None for name in FIELDS}
    wanted["in pieces"] = repr([repr(runs)] * len(PIECES))
    read["in pieces"] = repr([repr(_in_pieces(data, size)) for size in PIECES])
    return judge(path.name, wanted, read, understood=bool(runs))


def _in_pieces(data: bytes, size: int) -> tuple[RunReader, ...]:
    parser = TrainingParser()
    for at in range(0, len(data), size):
        parser.feed(data[at : at + size])
    parser.close()
    return parser.runs
