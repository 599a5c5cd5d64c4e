"""Commands of the documents, word for word, and where a recipe departs from them on purpose."""

from __future__ import annotations

DATA, CKPT = "/mnt/qwen-datasets", "/mnt/qwen-ckpts"
NEXT_CKPT = "/mnt/ckpts/mcore/Qwen3-Next-80B-A3B-Instruct-to-mcore"


def _qwen3(sft: str, data: str, valid: str, checkpoint: str, output: str) -> list[str]:
    return [
        "dlc", "A3B", "1", "8", "1e-5", "1e-6", "128", "128", "bf16", "4", "2", "1", "1", "4", "true", "true", "true",
        sft, "sel", "false", "100000", data, valid, checkpoint, "10000", "100", output,
    ]  # fmt: skip


def _following(sft: str, data: str, valid: str, amount: str, warmup: str, output: str) -> list[str]:
    return [
        "dlc", "A3B", "1", "8", "1e-5", "1e-6", "1024", "1024", "bf16", "1", "1", "1", "1", "8", "true", "true",
        "false", sft, "none", "false", "100000", f"/mnt/datasets/{data}", f"/mnt/datasets/{valid}", NEXT_CKPT, amount,
        warmup, f"/mnt/logs/output_mcore_qwen3_next_{output}",
    ]  # fmt: skip


_TEXT, _SFT = "mmap_qwen3_datasets_text_document", "mmap_qwen3_datasets_sft_text_document"
_TRAIN, _VALID = "alpaca_zh-train-general.json", "alpaca_zh-valid-general.json"
_PRETRAIN = _qwen3(
    "false", f"{DATA}/{_TEXT}", f"{DATA}/{_TEXT}", f"{CKPT}/Qwen3-30B-A3B-to-mcore",
    "/mnt/logs/output_mcore_qwen3_pretrain",
)  # fmt: skip
_FINETUNE = "/workspace/output_mcore_qwen3_finetune"

TRAINING = {
    "qwen3-30b-pretrain-pai": _PRETRAIN,
    "qwen3-30b-pretrain": _PRETRAIN,
    "qwen3-sft": _qwen3("true", f"{DATA}/path_to_your_dataset", f"{DATA}/path_to_your_dataset", "yours", _FINETUNE),
    "qwen3-sft-json": _qwen3(
        "true", f"{DATA}/{_TRAIN}", f"{DATA}/{_VALID}", f"{CKPT}/Qwen3-30B-A3B-to-mcore", _FINETUNE
    ),
    "qwen3-next-pretrain": _following("false", _TEXT, _TEXT, "1000000000", "10000", "pretrain"),
    "qwen3-next-sft": _following("true", _SFT, _SFT, "10000", "100", "finetune"),
    "qwen3-next-sft-json": _following("true", _TRAIN, _VALID, "10000", "100", "sft_json"),
}
"""The 27 arguments of run_mcore_qwen3.sh."""

_SHARED = {27: "/mnt/logs/output_mcore_qwen3_finetune"}  # /workspace is lost with the pod
_B200 = {17: "true"}  # fused attention has no 256 channels on B200
DECIDED: dict[str, dict[int, str]] = {
    # The document leaves both data and weights to the reader: what the recipe itself makes is taken.
    "qwen3-sft": _SHARED | {22: f"{DATA}/{_SFT}", 23: f"{DATA}/{_SFT}", 24: f"{CKPT}/Qwen3-30B-A3B-to-mcore"},
    "qwen3-sft-json": _SHARED,
    "qwen3-next-pretrain": _B200,
    "qwen3-next-sft": _B200,
    "qwen3-next-sft-json": _B200,
}
"""Argument number -> what is sent instead."""

CONVERSION = {
    "qwen3-to-mcore": ["A3B", f"{CKPT}/Qwen3-30B-A3B", f"{CKPT}/Qwen3-30B-A3B-to-mcore", "false", "true", "bf16"],
    "qwen3-to-hf": [
        "A3B", f"{CKPT}/Qwen3-30B-A3B-to-mcore", f"{CKPT}/Qwen3-30B-A3B-mcore-to-hf", "true", "true", "bf16",
        f"{CKPT}/Qwen3-30B-A3B",
    ],
    "qwen3-next-to-mcore": [
        "A3B", "/mnt/ckpts/huggingface/Qwen3-Next-80B-A3B-Instruct", NEXT_CKPT, "false", "true", "bf16",
    ],
}  # fmt: skip
"""The arguments of the conversion scripts."""

DPO = {
    "--rlhf_type": "dpo", "--load": "Qwen3-30B-A3B-Instruct-2507-mcore", "--dataset": "AI-ModelScope/orpo-dpo-mix-40k",
    "--split_dataset_ratio": "0.01", "--packing": "true", "--max_length": "8192", "--tensor_model_parallel_size": "4",
    "--expert_tensor_parallel_size": "1", "--expert_model_parallel_size": "8", "--sequence_parallel": "true",
    "--moe_permute_fusion": "true", "--moe_grouped_gemm": "true", "--moe_shared_expert_overlap": "true",
    "--moe_aux_loss_coeff": "1e-3", "--micro_batch_size": "1", "--global_batch_size": "4",
    "--recompute_granularity": "full", "--recompute_method": "uniform", "--recompute_num_layers": "1",
    "--max_epochs": "1", "--finetune": "true", "--cross_entropy_loss_fusion": "true", "--lr": "1e-5",
    "--min_lr": "1e-6", "--lr_warmup_fraction": "0.05", "--save": "megatron_output/Qwen3-30B-A3B-Instruct-2507",
    "--eval_interval": "200", "--save_interval": "200", "--num_workers": "8", "--dataset_num_proc": "8",
    "--no_save_optim": "true", "--no_save_rng": "true", "--attention_backend": "flash",
    "--optimizer_cpu_offload": "true", "--use_precision_aware_optimizer": "true", "--optimizer_offload_fraction": "1",
    "--beta": "0.1", "--loss_type": "sigmoid",
}  # fmt: skip
"""Flags of megatron rlhf."""

SWIFT_SFT = {
    "--load": "Qwen2.5-7B-Instruct-mcore",
    "--dataset": "AI-ModelScope/alpaca-gpt4-data-zh#500 AI-ModelScope/alpaca-gpt4-data-en#500 swift/self-cognition#500",
    "--tensor_model_parallel_size": "2", "--sequence_parallel": "true", "--micro_batch_size": "16",
    "--global_batch_size": "16", "--recompute_granularity": "full", "--recompute_method": "uniform",
    "--recompute_num_layers": "1", "--finetune": "true", "--cross_entropy_loss_fusion": "true", "--lr": "1e-5",
    "--lr_warmup_fraction": "0.05", "--min_lr": "1e-6", "--max_epochs": "1",
    "--save": "megatron_output/Qwen2.5-7B-Instruct", "--save_interval": "10", "--max_length": "2048",
    "--system": "You are a helpful assistant.", "--num_workers": "4", "--no_save_optim": "true",
    "--no_save_rng": "true", "--dataset_num_proc": "4", "--model_author": "swift", "--model_name": "swift-robot",
}  # fmt: skip
"""Flags of megatron sft; the document's weights lie in /models, here in the workspace."""

EXPORT = [
    "export", "--model", "Qwen3-30B-A3B-Instruct-2507", "--to_mcore", "true", "--torch_dtype", "bfloat16",
    "--output_dir", "Qwen3-30B-A3B-Instruct-2507-mcore", "--test_convert_precision", "true",
]  # fmt: skip
"""swift export; the document's weights lie in /models, here in the workspace."""

EVALUATION = [
    "launch", "--main_process_port", "29051", "-m", "lm_eval", "--model", "hf",
    "--model_args", f"pretrained={CKPT}/Qwen3-30B-A3B-mcore-to-hf,trust_remote_code=True",
    "--tasks", "cmmlu,ceval-valid", "--batch_size", "16",
]  # fmt: skip
"""accelerate; the document evaluates a folder (-mcore-te-to-hf) that nothing writes."""

BUILD_DATA = {
    "qwen3-sft": [
        f"{DATA}/{_TRAIN}", "Qwen3Tokenizer", "128", f"{DATA}/mmap_qwen3_datasets_sft",
        f"{CKPT}/Qwen3-30B-A3B", "false",
    ],
    "qwen3-next-sft": [
        f"/mnt/datasets/{_TRAIN}", "Qwen3Tokenizer", "1024", "/mnt/datasets/mmap_qwen3_datasets_sft",
        "/mnt/ckpts/huggingface/Qwen3-Next-80B-A3B-Instruct", "false",
    ],
}  # fmt: skip
"""The arguments of run_build_idxmap_sft_dataset.sh."""

PACKAGES = [
    "install", "transformers~=4.51", "huggingface_hub[cli]~=0.34", "numpy<2",
    "datasets==3.6.0", "packaging==24.2", "modelscope~=1.40",
]  # fmt: skip
"""The document's three, and what its own source had to add: the image has no transformers."""
BUILT = [
    "git+https://github.com/NVIDIA/TransformerEngine.git@c47f329b2084406093124851a3aeecb935183def",
    "mamba-ssm==2.2.6.post3",
    "causal-conv1d==1.5.2",
]
"""What Pai-Megatron-Patch has compiled before Qwen3-Next runs on NVIDIA's image, in its order."""
NEXT = ["triton==3.5.1", "flash-linear-attention==0.5.2"]
"""What it installs beside that, with a triton that knows B200 (the document's 3.2.0 does not), and bounded."""
AT_SIGTERM = {"--megatron_extra_kwargs": '{"exit_signal_handler": true}'}
"""What the SWIFT recipes add to the document's flags."""
TRANSFORMERS = "git+https://github.com/huggingface/transformers.git@5f6e278a5177d8b85945a2cdb6b776dacee34914"
REPOSITORY = "https://github.com/alibaba/Pai-Megatron-Patch.git"
HARNESS = "https://github.com/jerryli1981/lm-evaluation-harness.git"
STORE = "https://atp-modelzoo-wlcb-pai.oss-cn-wulanchabu.aliyuncs.com/release/models/pai-megatron-patch"
FILES = [
    f"{STORE}/qwen-datasets/mmap_qwen3_datasets_text_document.bin",
    f"{STORE}/qwen-datasets/mmap_qwen3_datasets_text_document.idx",
    f"{STORE}/datasets/{_TRAIN}",
    f"{STORE}/datasets/{_VALID}",
]
TRITON = "/usr/local/lib/python3.12/dist-packages/triton/backends/nvidia/driver.py"
