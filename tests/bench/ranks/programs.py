"""What a rank does: a small transformer under a framework, disturbed or hung as it is asked, and its own times.

`python programs.py FOLDER FRAMEWORK BATCH`, started by frameworks.py and gather.py, with PyTorch alone: FRAMEWORK is
loop, ddp, fsdp, compile, graphs (CUDA graphs), trainer (Hugging Face) or megatron (Megatron-Core, two ranks of tensors
and two stages). Each step is as FOLDER/mode says; what the rank measured goes to FOLDER/truth-RANK. With HANG, VICTIM
hangs that way in its sixth step, or before its first.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]
import torch.distributed as dist  # type: ignore[import-not-found]
from torch import nn
from torch.nn import functional  # type: ignore[import-not-found]
from torch.utils.data import DataLoader, IterableDataset  # type: ignore[import-not-found]

HANGS = ("init", "forward", "backward", "optimizer", "data", "checkpoint", "epoch", "lock", "dead", "stop", "teardown",
         "gpu")  # fmt: skip
HANG_AT = 5
LAYERS, WIDTH, WORDS = int(os.environ.get("LAYERS", "4")), int(os.environ.get("WIDTH", "384")), 1024
HEADS = WIDTH // 64
READ_EACH_STEP = ("loop", "fsdp", "trainer", "megatron")
"""Frameworks in which the host waits for its GPU in each step; in the others in each tenth."""
SEGMENTS = 4  # of the loop, each with a collective that the program waits for
MICROBATCHES = 4  # of Megatron
LISTS = 300_000
KEPT = 100  # steps whose times are told
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CUDA = torch.cuda.is_available()
LENGTH = 512 if CUDA else 64
DEVICE = torch.device("cuda", 0) if CUDA else torch.device("cpu")
FOLDER, FRAMEWORK, BATCH = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def write(place: Path, what: object) -> None:
    new = place.with_name(f"{place.name}.new")
    new.write_text(json.dumps(what))
    new.replace(place)


class Batches(IterableDataset):  # type: ignore[misc]
    """Batches of random tokens, late ones where the mode says so, none any more where the loader hangs."""

    def __init__(self, form: Callable[[Any], Any] = lambda tokens: tokens) -> None:
        self.form = form

    def __iter__(self) -> Iterator[Any]:
        given = 0
        while True:
            with contextlib.suppress(ValueError, OSError):
                kind, who, seconds, _ = json.loads((FOLDER / "mode").read_text())
                if kind == "data" and who == RANK:
                    time.sleep(seconds)
            if given == HANG_AT and hangs_here("data"):
                time.sleep(3600)  # a file system that does not answer
            given += 1
            yield self.form(torch.randint(0, WORDS, (BATCH, LENGTH)))


def hangs_here(how: str) -> bool:
    """Whether this rank is to hang in that way."""
    return os.environ.get("HANG") == how and int(os.environ["VICTIM"]) == RANK


class Meter:
    """The disturbances, the habits and the times of this rank."""

    def __init__(self) -> None:
        self.step = 0
        self.mode: list[Any] = ["none", 0, 0.0, 0]
        self.coming: list[Any] | None = None
        self.known, self.parts = 0, 1
        self.rows: list[list[Any]] = []
        self.ends: list[tuple[int, float]] = []
        self.lists: list[Any] = []
        self.chance = random.Random(RANK)
        self.begun = self.waited = 0.0
        self.events: list[Any] = []
        self.left = torch.randn(2048, 2048, device=DEVICE, dtype=torch.bfloat16) if CUDA else torch.ones(64, 64)
        self.one_product = self.time_of_a_product()
        self.model: Any = None
        logging.basicConfig(filename=FOLDER / f"own-log-{RANK}", level=logging.INFO)

    def time_of_a_product(self) -> float:
        self.multiply(50)
        if CUDA:
            torch.cuda.synchronize()
        began = time.perf_counter()
        self.multiply(200)
        if CUDA:
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / 200

    def multiply(self, times: int) -> None:
        for _ in range(times):
            torch.mm(self.left, self.left)

    @property
    def mine(self) -> bool:
        return bool(self.mode[1] == RANK)

    def does(self, kind: str, every: int) -> bool:
        return bool(self.mode[0] == kind and self.step % every == 0)

    def begin(self) -> None:
        """At the beginning of a step, before its batch is there."""
        self.begun, self.events = time.time(), []
        if self.mode[0] == "host" and self.mine:
            time.sleep(self.mode[2])
        if self.does("gc", 4) and self.mine:
            gc.collect()
        if self.step == HANG_AT and "HANG" in os.environ:
            (FOLDER / f"begun-{RANK}").touch()
            self.hang()

    def hang(self) -> None:
        if hangs_here("dead"):
            os._exit(1)
        if hangs_here("stop"):
            os.kill(os.getpid(), 19)
        if hangs_here("teardown"):
            dist.destroy_process_group()
            threading.Event().wait()
        if hangs_here("lock"):
            read_configuration()

    def load(self, batches: Iterator[Any]) -> Any:
        """The next batch, and how long it was waited for."""
        began = time.time()
        tokens = next(batches).to(DEVICE, non_blocking=True)
        self.waited = time.time() - began
        if self.mode[0] == "varlen":
            tokens = tokens[:, : int(LENGTH * (1 - self.chance.random() * self.mode[2]))]
        return tokens

    def slow_gpu(self, part: float = 1.0) -> None:
        """So much of what a slower GPU needs longer in a step."""
        if self.mode[0] in ("gpu", "card") and self.mine and CUDA:
            start, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.multiply(round(part * self.mode[2] / self.one_product))
            done.record()
            self.events.append((start, done))

    def watch(self, blocks: Any) -> None:
        """Have the blocks of a model slow down and hang as they are asked."""
        count = len(blocks)

        def enter(block: Any, *_: Any) -> None:
            if block.training:
                self.slow_gpu(1 / count / self.parts)
            if self.step == HANG_AT and block is blocks[count // 2]:
                if hangs_here("forward"):
                    load_expert()
                if hangs_here("gpu"):
                    torch.cuda._sleep(1 << 50)  # a kernel that does not end

        def leave(block: Any, _: Any, output: Any) -> None:
            out = output[0] if isinstance(output, tuple) else output
            if hangs_here("backward") and self.step == HANG_AT and block is blocks[count // 2]:
                out.register_hook(lambda _: scale_gradient())

        for block in blocks:
            block.register_forward_pre_hook(enter)
            block.register_forward_hook(leave)

    def before_optimizer(self, *_: Any) -> None:
        if self.step == HANG_AT and hangs_here("optimizer"):
            offload_states()

    def end(self, evaluate: Callable[[], object] = lambda: None) -> None:
        """At the end of a step, when all of it is launched."""
        if self.does("save", 60) and RANK == 0:
            (FOLDER / "saved").write_bytes(bytes(20 << 20))
        if self.does("log", 10) and RANK == 0:
            logging.info("step %d of a run whose loss is logged", self.step)
            time.sleep(0.004)
        if self.does("evaluate", 40):
            evaluate()
        if self.step == HANG_AT and os.environ.get("HANG") == "checkpoint":
            if hangs_here("checkpoint"):
                save_checkpoint()
            dist.barrier()
        self.rows.append([self.begun, self.waited, time.time(), self.events])
        if self.step % 10 == 0 or FRAMEWORK in READ_EACH_STEP:  # at other ends the host may be ahead of its GPU
            self.ends.append((self.step, time.time()))
        self.step += 1
        if self.step % 10 == 0:
            write(FOLDER / f"steps-{RANK}", [self.step, time.time()])
        with contextlib.suppress(OSError, ValueError):
            changed = (FOLDER / "mode").stat().st_mtime_ns
            if changed != self.known:
                self.known, self.coming = changed, json.loads((FOLDER / "mode").read_text())
        if self.coming and self.step >= self.coming[3]:  # all at the same step
            self.mode, self.coming = self.coming, None
            self.lists = [[] for _ in range(LISTS)] if self.mode[0] == "gc" and self.mine else []
            self.rows.clear()
            if self.mode[0] == "end":  # not by a signal: MPS would take it for a fault of all
                torch.cuda.synchronize()
                os._exit(0)
            self.rest()
        if self.step % 20 == 0:
            self.tell_truth()

    def rest(self) -> None:
        """While others are measured: all ranks stop behind the same step, until another mode is asked for."""
        if self.mode[0] == "rest":
            write(FOLDER / f"ends-{RANK}", self.ends)
        self.ends.clear()
        while self.mode[0] == "rest":
            time.sleep(0.02)
            with contextlib.suppress(ValueError):
                self.mode = json.loads((FOLDER / "mode").read_text())

    def tell_truth(self) -> None:
        rows = self.rows[-KEPT:]
        gpu = [sum(a.elapsed_time(b) for a, b in row[3]) for row in rows[:-10] if row[3] and row[3][-1][1].query()]
        write(FOLDER / f"truth-{RANK}", {
            "kind": self.mode[0], "lists": len(self.lists), "waited": [row[1] for row in rows],
            "begun": [row[0] for row in rows], "launched": [row[2] for row in rows], "gpu": gpu,
        })  # fmt: skip
        del self.rows[:-KEPT]


def load_expert() -> None:
    time.sleep(3600)


def scale_gradient() -> None:
    time.sleep(3600)


def offload_states() -> None:
    time.sleep(3600)


def load_weights() -> None:
    time.sleep(3600)


def read_configuration() -> None:
    """Take a lock twice, as a logger does that logs in its own handler."""
    lock = threading.Lock()
    with lock:
        lock.acquire()


def save_checkpoint() -> None:
    with open(FOLDER / "storage", "wb") as file:  # noqa: PTH123
        torch.save({"model": torch.ones(1 << 20)}, file)


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        b, n, _ = x.shape
        q, k, v = (each.view(b, n, HEADS, -1).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, n, WIDTH))
        return x + self.back(functional.gelu(self.wide(self.other(x))))


class Model(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


def batches() -> Iterator[Any]:
    return iter(DataLoader(Batches(), batch_size=None, num_workers=1, prefetch_factor=2))


def run_steps(meter: Meter, step: Callable[[Any], object], evaluate: Callable[[], object] = lambda: None) -> None:
    """Steps without an end; `step` takes a batch."""
    every = batches()
    while True:
        meter.begin()
        if meter.step == HANG_AT and hangs_here("epoch"):  # its sampler has one batch less
            return
        step(meter.load(every))
        meter.end(evaluate)


def train_loop(meter: Meter) -> None:
    """Products and collectives that the program waits for."""
    gradient = torch.ones(1 << 19, device=DEVICE)

    def step(_: Any) -> None:
        for _ in range(SEGMENTS):
            meter.slow_gpu(1 / SEGMENTS)
            meter.multiply(max(1, round(0.006 / SEGMENTS / meter.one_product)))
            dist.all_reduce(gradient)
        gradient[0].item()

    run_steps(meter, step)


def train_torch(meter: Meter) -> None:
    """DDP, FSDP2, and DDP that is compiled or whose model is a CUDA graph."""
    model: Any = Model().to(DEVICE)
    meter.model = model
    if FRAMEWORK in ("ddp", "fsdp"):
        meter.watch(model.blocks)
    cast = torch.autocast(DEVICE.type, torch.bfloat16, cache_enabled=FRAMEWORK != "graphs")
    if FRAMEWORK == "fsdp":
        fsdp: Any = importlib.import_module("torch.distributed.fsdp")
        for block in model.blocks:
            fsdp.fully_shard(block)
        fsdp.fully_shard(model)
    else:
        if FRAMEWORK == "graphs":
            with cast:
                model = torch.cuda.make_graphed_callables(model, (torch.zeros(BATCH, LENGTH, dtype=torch.long).cuda(),))
        model = nn.parallel.DistributedDataParallel(model, device_ids=[0] if CUDA else None, bucket_cap_mb=8)
        if FRAMEWORK == "compile":
            model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=CUDA)
    optimizer.register_step_pre_hook(meter.before_optimizer)

    def step(tokens: Any) -> None:
        meter.parts = 4 if meter.mode[0] == "accumulate" else 1
        if FRAMEWORK in ("compile", "graphs"):
            meter.slow_gpu()
        for part in range(meter.parts):
            last = part == meter.parts - 1
            hold = model.no_sync() if not last and FRAMEWORK != "fsdp" else contextlib.nullcontext()
            with hold:
                if FRAMEWORK == "fsdp":
                    model.set_requires_gradient_sync(last)
                with cast:
                    loss = model(tokens)
                loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if FRAMEWORK == "fsdp" or meter.step % 10 == 0:
            loss.item()

    def evaluate() -> None:
        model.eval()
        with torch.no_grad(), cast:
            for _ in range(4):
                model(torch.zeros(BATCH, LENGTH, dtype=torch.long, device=DEVICE))
        model.train()

    run_steps(meter, step, evaluate if FRAMEWORK != "graphs" else lambda: None)


def train_trainer(meter: Meter) -> None:
    """The Trainer of Hugging Face's transformers, with its own DDP, logging, evaluation and checkpoints."""
    hugging: Any = importlib.import_module("transformers")
    shape = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    model = hugging.LlamaForCausalLM(hugging.LlamaConfig(vocab_size=WORDS, intermediate_size=4 * WIDTH, **shape))
    meter.watch(model.model.layers)

    class Held(Batches):
        """Some batches, for an evaluation."""

        def __iter__(self) -> Iterator[Any]:
            return iter([self.form(torch.zeros(BATCH, LENGTH, dtype=torch.long))] * 4)

    def form(tokens: Any) -> dict[str, Any]:
        return {"input_ids": tokens, "labels": tokens}

    class OwnTrainer(hugging.Trainer):  # type: ignore[misc]
        def get_batch_samples(self, *given: Any) -> Any:
            began = time.time()
            batch = super().get_batch_samples(*given)
            meter.waited = time.time() - began
            return batch

        def get_train_dataloader(self) -> Any:
            return DataLoader(Batches(form), batch_size=None, num_workers=1, prefetch_factor=2)

        def training_step(self, model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
            if meter.mode[0] == "varlen":
                length = int(LENGTH * (1 - meter.chance.random() * meter.mode[2]))
                inputs = {name: each[:, :length] for name, each in inputs.items()}
            return super().training_step(model, inputs, *given, **named)

    class Habits(hugging.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            meter.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            control.should_save = meter.does("save", 60)
            control.should_evaluate = meter.does("evaluate", 40)
            control.should_log = meter.does("log", 10)
            meter.end()
            return control

    arguments = hugging.TrainingArguments(
        output_dir=str(FOLDER / "checkpoints"), per_device_train_batch_size=1, max_steps=10_000_000, bf16=True,
        logging_steps=20, save_steps=10_000_000, save_total_limit=1, report_to=[], disable_tqdm=True,
        ddp_find_unused_parameters=False, use_cpu=not CUDA, max_grad_norm=1.0,
        eval_strategy="steps", eval_steps=10_000_000, per_device_eval_batch_size=1, ddp_bucket_cap_mb=8,
    )  # fmt: skip
    OwnTrainer(
        model, arguments, data_collator=lambda several: several[0], train_dataset=Batches(form),
        eval_dataset=Held(form), callbacks=[Habits()],
    ).train()  # fmt: skip


def train_megatron(meter: Meter) -> None:
    """Megatron-Core: tensors over two ranks, two stages, what is left are replicas."""
    core: Any = importlib.import_module("megatron.core")
    parallel: Any = importlib.import_module("megatron.core.parallel_state")
    seeds: Any = importlib.import_module("megatron.core.tensor_parallel.random")
    gpt: Any = importlib.import_module("megatron.core.models.gpt.gpt_model")
    specs: Any = importlib.import_module("megatron.core.models.gpt.gpt_layer_specs")
    schedules: Any = importlib.import_module("megatron.core.pipeline_parallel.schedules")
    distributed: Any = importlib.import_module("megatron.core.distributed")
    optimizers: Any = importlib.import_module("megatron.core.optimizer")
    shape: Any = importlib.import_module("megatron.core.transformer.transformer_config")
    tensors, stages = (2 if WORLD >= 2 else 1), (2 if WORLD >= 4 else 1)
    parallel.initialize_model_parallel(tensors, stages, create_gloo_process_groups=False)
    seeds.model_parallel_cuda_manual_seed(1)
    config = shape.TransformerConfig(
        num_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS, ffn_hidden_size=4 * WIDTH, bf16=CUDA,
        params_dtype=torch.bfloat16 if CUDA else torch.float32, tensor_model_parallel_size=tensors,
        pipeline_model_parallel_size=stages, pipeline_dtype=torch.bfloat16 if CUDA else torch.float32,
        gradient_accumulation_fusion=False, masked_softmax_fusion=False, bias_dropout_fusion=False,
        bias_activation_fusion=False, persist_layer_norm=False, attention_dropout=0.0, hidden_dropout=0.0,
        finalize_model_grads_func=distributed.finalize_model_grads,
    )  # fmt: skip
    model: Any = gpt.GPTModel(
        config, specs.get_gpt_layer_local_spec(), WORDS, LENGTH,
        pre_process=parallel.is_pipeline_first_stage(), post_process=parallel.is_pipeline_last_stage(),
    ).to(DEVICE, torch.bfloat16 if CUDA else torch.float32)  # fmt: skip
    meter.watch(model.decoder.layers)
    wrapped = distributed.DistributedDataParallel(
        config,
        distributed.DistributedDataParallelConfig(
            grad_reduce_in_fp32=False, overlap_grad_reduce=True, use_distributed_optimizer=WORLD >= 8
        ),
        model,
    )
    config.no_sync_func = wrapped.no_sync
    optimizer = optimizers.get_megatron_optimizer(
        optimizers.OptimizerConfig(
            optimizer="adam", lr=1e-4, bf16=CUDA, use_distributed_optimizer=WORLD >= 8, clip_grad=1.0
        ),
        [wrapped],
        use_gloo_process_groups=False,
    )
    run = schedules.get_forward_backward_func()
    micro = max(1, BATCH // MICROBATCHES)
    mask = torch.triu(torch.ones(1, 1, LENGTH, LENGTH, device=DEVICE), 1).bool()
    places = torch.arange(LENGTH, device=DEVICE).expand(micro, LENGTH)
    meter.parts = MICROBATCHES

    def forward(parts: Iterator[Any], model: Any) -> Any:
        tokens = next(parts)
        output = model(tokens, places[: len(tokens)], mask, labels=tokens)

        def loss(output: Any) -> Any:
            mean = output.float().mean()
            return mean, {"loss": mean.detach()}

        return output, loss

    def go(tokens: Any, *, only_forward: bool) -> Any:
        return run(
            forward_step_func=forward, data_iterator=iter(tokens.split(micro)), model=[wrapped],
            num_microbatches=MICROBATCHES, seq_length=LENGTH, micro_batch_size=micro, forward_only=only_forward,
        )  # fmt: skip

    def step(tokens: Any) -> None:
        wrapped.zero_grad_buffer()
        optimizer.zero_grad()
        go(tokens, only_forward=False)
        meter.before_optimizer()
        optimizer.step()

    def evaluate() -> None:
        wrapped.eval()
        with torch.no_grad():
            go(torch.zeros(micro * MICROBATCHES, LENGTH, dtype=torch.long, device=DEVICE), only_forward=True)
        wrapped.train()

    assert core is not None
    run_steps(meter, step, evaluate)


TRAININGS = {"loop": train_loop, "trainer": train_trainer, "megatron": train_megatron}


def main() -> None:
    if CUDA and "HANG" in os.environ:
        with contextlib.suppress(OSError):  # sleep while the GPU works: many ranks that hang share few cores here
            ctypes.CDLL("libcudart.so.13").cudaSetDeviceFlags(4)
    if CUDA:
        torch.cuda.set_device(DEVICE)
        dist.init_process_group("nccl", device_id=DEVICE, timeout=timedelta(hours=1))
    else:
        dist.init_process_group("gloo", timeout=timedelta(hours=1))
    torch.manual_seed(1)
    if os.environ.get("HANG") == "init":
        (FOLDER / f"begun-{RANK}").touch()
        if hangs_here("init"):
            load_weights()
    TRAININGS.get(FRAMEWORK, train_torch)(Meter())
    dist.barrier()


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, StopIteration) as error:
        if "HANG" not in os.environ:
            raise
        print(error, flush=True)  # noqa: T201
        threading.Event().wait()
