"""What programs print, one after the other: made up here, in the grammar of each."""

# ruff: noqa: E501  # lines are as long as programs print them

import random
import re

import pytest

from trainlog import LineLayout, parse_training
from trainlog.training.parser import TrainingParser

# program: its lines, then number, loss and what else is said of each step
PROGRAMS: dict[str, tuple[str, list[dict[str, float]]]] = {
    "mmengine": (
        "2026/01/09 07:49:32 - mmengine - INFO - Iter(train) [  850/96000]  lr: 9.5e-06  eta: 18 days, 16:13:38  "
        "time: 16.25  data_time: 0.04  memory: 54047  loss: 0.5  tflops: 34.5  tokens_per_sec: 1012.5\n",
        [{"step": 850, "total": 96000, "loss": 0.5, "lr": 9.5e-06, "step_time_s": 16.25, "tflops_per_gpu": 34.5,
          "tokens_per_s": 1012.5}],
    ),
    "mmengine by epochs": (
        "".join(
            f"2026/01/09 07:49:32 - mmengine - INFO - Epoch(train)  [{epoch}][  {at}/1000]  lr: 1.0e-05  time: 16.5  "
            "loss: 0.5\n"
            for epoch, at in ((1, 50), (1, 100), (2, 50))
        ),
        [{"step": at, "loss": 0.5, "lr": 1e-05, "step_time_s": 16.5} for at in (50, 100, 150)],
    ),
    "litgpt": (
        "Epoch 3 | iter 250 step 50 | loss train: 2.75, val: n/a | iter time: 112.20 ms (step)\n"
        "Epoch 3 | iter 260 step 52 | loss train: 2.5, val: 2.875 | iter time: 111.30 ms (step) remaining time: 0:01\n"
        "Epoch 3 | iter 270 step 54 | loss train: 2.25, val: 2.875 | iter time: 111.30 ms (step) remaining time: 0:01\n",
        [{"step": 52, "loss": 2.5}, {"step": 54, "loss": 2.25}],
    ),
    "old litgpt": (
        "".join(
            f"Ep 1 | iter {at} | {word} {at // 2}: loss train (curr): {3 - at / 4}, val (prev val iter): None | iter "
            "time: 98.5 ms\n"
            for at, word in ((2, "stEp"), (3, "stEp"), (4, "step"))
        ),
        [{"step": 1, "loss": 2.25}, {"step": 2, "loss": 2.0}],
    ),
    "slime": (
        "rollout 7: {'rollout/rewards': 0.5}\n"
        "step 7: {'train/loss': 1.25, 'train/pg_loss': -0.5, 'train/grad_norm': 0.75, 'train/step': 7}\n",
        [{"step": 7, "loss": 1.25, "grad_norm": 0.75}],
    ),
    "NeMo 1": (
        "Epoch 0: :   0%|          | 5/1000 [00:10<30:00, v_num=1, reduced_train_loss=10.5, global_step=4.000, "
        "train_step_timing in s=1.25]\n",
        [{"step": 5, "total": 1000, "loss": 10.5, "step_time_s": 1.25}],
    ),
    "NeMo-RL": (
        "".join(
            f"================ Step {at}/9 ================\nPreparing\nRollouts: 100%|##| 4/4 [00:10<00:00, 4.0it/s]\n"
            f"Results:\n  • Loss: {loss}\n  • Avg Reward: 0.5\nTiming:\n  • Total step time: 8.50s\n  • generation: 4.00s "
            "(47.0%)\nMetrics:\n    - E2E (Tokens/sec/gpu): 20.50\n"
            for at, loss in ((1, 0.25), (2, -0.5))
        ),
        [{"step": at, "total": 9, "loss": loss, "step_time_s": 8.5, "tokens_per_s": 20.5}
         for at, loss in ((1, 0.25), (2, -0.5))],
    ),
    "torchtune behind labels": (
        "[trainer0|0]:1|2|Loss: 2.75:   2%|\n[default0]:1|3|Loss: 2.5:   3%|\n",
        [{"step": 2, "loss": 2.75}, {"step": 3, "loss": 2.5}],
    ),
    "torchtune on disk": (
        "Step 1 | loss:2.5 class_loss:2.75 kd_loss:1.5 lr:1e-06 tokens_per_second_per_gpu:149.5\n",
        [{"step": 1, "loss": 2.5, "lr": 1e-06, "tokens_per_s": 149.5}],
    ),
    "OLMo": (
        "".join(
            f"[2026-01-17 09:42:26] INFO     [olmo.train:816, rank=0] [step={at}/7000]\n    train/CrossEntropyLoss={loss}\n"
            "    train/Perplexity=76,631\n    throughput/device/tokens_per_second=45,538\n    optim/total_grad_norm=1.5\n"
            "    System/Peak GPU Memory (MB)=42,133\n"
            for at, loss in ((1, 11.25), (2, 10.5))
        ),
        [{"step": at, "total": 7000, "loss": loss, "tokens_per_s": 45538.0, "grad_norm": 1.5}
         for at, loss in ((1, 11.25), (2, 10.5))],
    ),
    "Composer": (
        "[batch=2/100]:\n\t Train time/epoch: 0\n\t Train loss/train/total: 10.75\n"
        "\t Train throughput/device/tokens_per_sec: 1234.5\n[batch=3/100]:\n\t Train loss/train/total: 10.5\nplain words\n",
        [{"step": 2, "total": 100, "loss": 10.75, "tokens_per_s": 1234.5}, {"step": 3, "total": 100, "loss": 10.5}],
    ),
    "OpenRLHF": (
        "Train epoch [2/3]: 50%|##  | 1/2 [00:02<00:02, pg=-0.125, rm=0.5, ret=0.1, kl=0, act_lr=1.5e-6]\n",
        [{"step": 3, "loss": -0.125, "lr": 1.5e-06}],
    ),
    "PPO of TRL": (
        "{'eps': 1, 'objective/kl': 10.5, 'loss/policy_avg': -0.0025, 'loss/value_avg': 0.5, 'lr': 1.5e-06, "
        "'episode': 816, 'epoch': 0.5}\n",
        [{"step": 816, "loss": -0.0025, "lr": 1.5e-06}],
    ),
    "old fairseq": (
        "| epoch 004 | valid on 'valid' subset  1000 / 1311 loss=3.24\n"
        "| epoch 005  1000 / 8000 loss=2.25 (3.20), wps=959, lr=0.001, clip=100%, gnorm=2.75\n"
        "| epoch 005 | train loss 2.92 | train ppl 7.59 | lr 0.001000\n",
        [{"step": 33000, "loss": 2.25, "lr": 0.001, "grad_norm": 2.75}],
    ),
    "bars of fairseq on one line": (
        "".join(
            f"| epoch 017:  40%|#| {at}/35 [00:16<00:24,  1.25s/it, loss=11.{at}, num_updates={560 + at}, lr=0.00025, cl"
            for at in (14, 15)
        )
        + "\n",
        [{"step": at + 560, "loss": float(f"11.{at}"), "lr": 0.00025, "step_time_s": 1.25} for at in (14, 15)],
    ),
    "JSON of fairseq": (
        '{"epoch": 1, "update": 0.01, "loss": "14.5", "wps": "5123.4", "num_updates": "100", "lr": "1.25e-05", '
        '"gnorm": "4.5"}\n',
        [{"step": 100, "loss": 14.5, "lr": 1.25e-05, "grad_norm": 4.5}],
    ),
    "DLLogger as text": (
        "".join(
            f"DLL 2026-04-05 02:22:54.61 - Training Epoch: 1 Training Iteration: {at}  step_loss : 0.75  learning_rate : "
            "1.5e-05 \n"
            for at in (50, 100)
        ),
        [{"step": at, "loss": 0.75, "lr": 1.5e-05} for at in (50, 100)],
    ),
    "ColossalAI": (
        "          INFO     colossalai - INFO: [Epoch 4 / Train]:\n"
        "                   Loss = 163.5 | LR = 0.00015 | Throughput = 0\n"
        "          INFO     colossalai - INFO: [Epoch 4 / Train]:\n"
        "                   GPU: allocated 544.23 MB, max allocated 1228.89 MB,\n",
        [{"step": 4, "loss": 163.5, "lr": 0.00015}],
    ),
    "names by kind": (
        "".join(
            f"[step {at}] 2:31<6:50 train/loss/total=1163 train/grad_norms/summary/total=42.5 train/perf/step_time_s=0.25 "
            "train/schedules/lr=0.0001\n"
            for at in (300, 310)
        ),
        [{"step": at, "loss": 1163.0, "grad_norm": 42.5, "step_time_s": 0.25, "lr": 0.0001} for at in (300, 310)],
    ),
    "PaddleNLP": (
        "[    INFO] - loss: 12.5, learning_rate: 2e-06, global_step: 1, interval_runtime: 1.25, "
        "interval_tokens_per_second_per_device: 889.5, interval_hardware_tflops_per_device: 2.75, "
        "interval_steps_per_second: 0.8\n",
        [{"step": 1, "loss": 12.5, "lr": 2e-06, "step_time_s": 1.25, "tokens_per_s": 889.5, "tflops_per_gpu": 2.75}],
    ),
    "PaddleNLP over several lines": (
        "[2026-08-28 18:19:56,302] [    INFO] - loss: 1.5,\n\t\tlearning_rate: 5e-06, \n\t\tglobal_step: 10, \n"
        "\t\tepoch: 10.0\n[2026-08-28 18:19:56,303] [    INFO] - ***** Running Evaluation *****\n",
        [{"step": 10, "loss": 1.5, "lr": 5e-06}],
    ),
    "kohya": (
        "steps:   1%|   | 10/1600 [00:20<53:20,  2.25s/it, avr_loss=0.125]\n",
        [{"step": 10, "total": 1600, "loss": 0.125, "step_time_s": 2.25}],
    ),
    "levanter": (
        "2026-01-01T00:00:00 - 0 - tqdm_logging.py:66 - INFO :: Progress on:train 120it/1000it rate:2.0it/s "
        "remaining:13:04 elapsed:01:40 postfix:loss=3.25\n"
        "INFO :: Progress on:eval 120it/1000it rate:2.0it/s remaining:13:04 elapsed:01:40 postfix:loss=3.5\n",
        [{"step": 120, "total": 1000, "loss": 3.25, "step_time_s": 0.5}],
    ),
    "timm": (
        "Train: 1 [  50/1200 (  4%)]  Loss: 6.75 (6.94)  Time: 0.5s, 1234.5/s  (0.6s, 1200.00/s)  LR: 1.500e-06  Data: 0\n",
        [{"step": 1250, "loss": 6.75, "lr": 1.5e-06, "step_time_s": 0.5}],
    ),
    "MindFormers": (
        "".join(
            f"2026-01-01 00:00:00,123 - mindformers - INFO - {{ Epoch:[  1/  2], step:[   {at}/  100], loss: 10.25, "
            "per_step_time: 5000ms, lr: 1e-06, overflow cond: False }\n"
            for at in (10, 12)
        ),
        [{"step": at, "total": 100, "loss": 10.25, "lr": 1e-06, "step_time_s": 5.0} for at in (10, 12)],
    ),
    "the other bar of Lightning": (
        "Epoch 1/9 ━━━━━━━━━╸━━━━━━ 12/100 0:00:05 • 0:00:30 2.50it/s v_num: 0.000 train_loss: 2.25\n",
        [{"step": 112, "loss": 2.25, "step_time_s": 0.4}],
    ),
    "a table in a notebook": (
        "Step\tTraining Loss\tValidation Loss\n500\t2.345600\t2.100000\n1000\tNo log\t2.0\n1500\t1.9\tNo log\n\n2000 9\n",
        [{"step": 500, "loss": 2.3456}, {"step": 1500, "loss": 1.9}],
    ),
    "Keras": (
        "Epoch 1/5\n100/782 [==>...........................] - ETA: 3s - loss: 1.75 - accuracy: 0.45\n"
        "Epoch 2/5\n100/782 ━━━━━━━━━━━━━━━━━━━━ 5s 6ms/step - accuracy: 0.5 - loss: 1.5 - val_loss: 1.25\n",
        [{"step": 100, "total": 3910, "loss": 1.75}, {"step": 882, "total": 3910, "loss": 1.5}],
    ),
    "nanotron": (
        "".join(
            f"01/17/2026 01:18:26 [INFO|DP=0|PP=0|TP=0|ip-26-0]: iteration: {at} / 100 | consumed_tokens: 20.5K | elapsed_"
            "time_per_iteration_ms: 1.25K | tokens_per_sec: 3.25K | tokens_per_sec_per_gpu: 1.64K | lm_loss: 10.5 | lr: "
            "0.0003 | model_tflops_per_gpu: 12.5 | hardware_tflops_per_gpu: 13.3 | grad_norm: 5.5\n"
            for at in (5, 6)
        ),
        [{"step": at, "total": 100, "loss": 10.5, "lr": 0.0003, "step_time_s": 1.25, "tokens_per_s": 3250.0,
          "tflops_per_gpu": 12.5, "grad_norm": 5.5} for at in (5, 6)],
    ),
    "GPT-NeoX": (
        " samples/sec: 21.654 | iteration      110/  320000 | elapsed time per iteration (ms): 591.5 | learning rate: "
        "6.000E-06 | approx flops per GPU: 150.5TFLOPS | lm_loss: 9.5E+00 | loss scale: 1.0 | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |\n",
        [{"step": 110, "total": 320000, "loss": 9.5, "lr": 6e-06, "step_time_s": 0.5915, "tflops_per_gpu": 150.5,
          "skipped": 0}],
    ),
    "Megatron-Bridge without a model": (
        "Step Time : 7.04s GPU utilization: 528.5 TFLOP/s/GPU\n iteration        1/      10 | consumed samples: 128 |"
        " elapsed time per iteration (ms): 7037.3 | lm loss: 6.75E+00 |\n",
        [{"step": 1, "total": 10, "loss": 6.75, "step_time_s": 7.0373, "tflops_per_gpu": 528.5}],
    ),
    "InternEvo": (
        "2026-03-21 14:48:31,587      INFO training_internlm.py:599 in record -- tflops=186.5 step=1 loss=11.5 tgs (tokens"
        "/gpu/second)=3917.5 tgs/last_tgs_1=3917.97 lr=6e-07 grad_norm={'0_default': 23.25, '1_fp32': 0.0}\n" * 2,
        [{"step": 1, "loss": 11.5, "lr": 6e-07, "tflops_per_gpu": 186.5, "tokens_per_s": 3917.5, "grad_norm": 23.25}],
    ),
    "picotron": (
        "[rank 0] Step: 5     | Loss: 10.5 | Global batch size:    64 | Tokens/s:  10.5K | MFU:  0.43% |\n",
        [{"step": 5, "loss": 10.5, "tokens_per_s": 10500.0}],
    ),
    "verl, broken by a terminal": (
        "(TaskRunner pid=1) step:2 - actor/pg_loss:0.25 - actor/grad_norm:0.5 - perf/mfu/act\n"
        "or:0.004 - timing_s/gen:74.020 - timing_s/step:96.5 - timing_per_token_ms/adv:0.001\n",
        [{"step": 2, "loss": 0.25, "grad_norm": 0.5, "step_time_s": 96.5}],
    ),
    "carriage returns as letters": (
        "^M  4%|#  | 1295/36234 [11:25<5:08:37,  1.25s/it]^M     ^M{'loss': 1.25, 'epoch': 0.21}\n"
        "^M  4%|#  | 1295/36234 [11:25<5:08:37,  1.25s/it]"
        "^M  4%|#  | 1296/36234 [11:26<5:08:37,  1.25s/it]^M     ^M{'loss': 1.5, 'epoch': 0.21}\n",
        [{"step": 1295, "total": 36234, "loss": 1.25}, {"step": 1296, "total": 36234, "loss": 1.5}],
    ),
}  # fmt: skip
FIELDS = ("step", "total", "loss", "grad_norm", "lr", "step_time_s", "tflops_per_gpu", "tokens_per_s", "skipped")


TABLES = ("a table in a notebook", "ColossalAI")


@pytest.mark.parametrize(
    "label", ["[pod/a-0/main] ", "2026-01-01T00:00:00.123Z ", "[rank0]: ", "node-1: ", "(m, pid=1) "]
)
@pytest.mark.parametrize("program", ["NeMo-RL", "OLMo", "Composer", "PaddleNLP over several lines", "Keras", *TABLES])
def test_reports_of_several_lines_are_read_behind_labels_and_between_lines_of_others(program: str, label: str) -> None:
    lines, others = PROGRAMS[program][0].splitlines(), "[pod/b-1/main] a warning\n" * (label[0] == "[")
    labelled = "".join(f"{label}{line}\n{others}" for line in lines)
    found, alone = (
        [step._replace(extra={}) for run in parse_training(log.encode()) for step in run.steps]
        for log in (labelled, PROGRAMS[program][0])
    )
    assert found == alone != []


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_program_prints(program: str) -> None:
    text, wanted = PROGRAMS[program]
    (run,) = parse_training(text.encode())
    read = [{name: value for name in FIELDS if (value := getattr(step, name)) is not None} for step in run.steps]
    assert read == wanted


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_does_not_matter_how_the_bytes_arrive(program: str, size: int) -> None:
    data = PROGRAMS[program][0].encode()
    parser = TrainingParser()
    for at in range(0, len(data), size):
        parser.feed(data[at : at + size])
    parser.close()
    assert repr(parser.runs) == repr(parse_training(data))


def test_forms_of_lines_in_other_logs_change_nothing() -> None:
    known: list[LineLayout] = []
    for _ in range(2):
        for text, *_ in PROGRAMS.values():
            parser = TrainingParser(layouts=known)
            parser.feed(text.encode())
            parser.close()
            assert repr(parser.runs) == repr(parse_training(text.encode()))
    assert len({layout.format for layout in known}) > 1


def test_what_every_line_holds_that_says_something_is_looked_for() -> None:
    for text, _ in PROGRAMS.values():
        eager = TrainingParser()
        for line in text.replace("^M", "\n").split("\n"):
            eager._parse_raw_line(line.encode())
        eager.close()
        assert repr(eager.runs) == repr(parse_training(text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        "Validation steps:  10%|#  | 5/50 [00:02<00:20,  2.00it/s, loss=2.5]\n",
        "Eval: Epoch 0:  10%|#  | 5/50 [00:02<00:20,  2.00it/s, loss=2.5]\n",
        "Epoch 0: 100%|###| 18/18 [00:02<00:00,  2.00it/s, v_num=1, val_loss=2.5]\n",
        "Train epoch [1/1]: 50%|#  | 1/2 [00:02<00:02, kl_loss=0.1, rm=0.5]\n",
        "[step=5/100]\nplain words\n    loss=2.5\n",
        "    loss=2.5\n[step=5/100]\n---\n",
        "============ Step 1/2 ============\n  • Avg Reward: 0.5\n",
        "the loss at step 5 is computed as,\n\ta: 5,\n",
        "500\t2.3456\n",
        "100/782 [==>...........................] - ETA: 3s - loss: 1.75\n",
        "perf 7: {'perf/step_time': 1.5}\nrollout 7: {'rollout/loss': 0.5}\n",
        "Progress on:train 12.3kit/100kit rate:2.0it/s remaining:13:04 elapsed:01:40 postfix:loss=3.25\n",
    ],
)
def test_what_is_no_step_of_training(text: str) -> None:
    assert parse_training((text * 2).encode()) == ()


NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")
STEP = re.compile(r"(?:[sS]tep|iter(?:ation)?|Iteration|updates)[\s:=\[\"']{0,9}(\d+)(?![\d.])|\|(\d+)\|Loss")


def other(chance: random.Random, number: str) -> str:
    """Another number in that place, mostly of the same kind."""
    match chance.randint(0, 40):
        case 0:
            return chance.choice(["nan", "0", "0.0", "-1.5", "inf", "-0.0", "1e-05", "7.5e-09", "1,234,567", "1,234.5"])
        case 1:
            return f"{chance.random() * 10 ** chance.randint(-9, 9):.3g}"
        case 2:
            return f"{chance.random() * 10 ** chance.randint(-3, 4):.{chance.randint(0, 8)}f}"
        case _:
            return re.sub(r"\d", lambda _: str(chance.randint(0, 9)), number)


@pytest.mark.slow(reason="many inputs, one after another", fast_rows=7)
@pytest.mark.parametrize("program", PROGRAMS)
def test_other_numbers_mean_the_same_many_at_once_and_by_themselves(program: str) -> None:
    chance = random.Random(program)
    for line in {line for line in PROGRAMS[program][0].split("\n") if "oss" in line}:
        numbers, step = list(NUMBER.finditer(line)), STEP.search(line)
        place = step.start(step.lastindex or 0) if step else -1
        change = {number.start() for number in numbers if chance.random() < 0.5}
        lines = []
        for n in range(120):
            text, at = "", 0
            for number in numbers:
                here = number.start()
                new = str(int(number.group()) + n) if here == place else other(chance, number.group())
                text += line[at:here] + (new if here == place or (here in change and n > 15) else number.group())
                at = number.end()
            lines.append(f"{text}{line[at:]}\n")
        data = "".join(lines).encode()
        assert repr(parse_training(data)) == repr(parse_training(data, is_short=True))
