#!/usr/bin/env bash
# PyTorch DDP smoke test: torchrun in every pod, one all_reduce over all GPUs, its sum compared with the expected one.
# The chart sets JOB_COMPLETION_INDEX, NNODES, GPUS_PER_NODE, MASTER_ADDR, MASTER_PORT; prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${A4_ROOT:-}"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
trap 'step_end $?' EXIT

# gIB warns about both; DDP needs neither.
unset TORCH_NCCL_USE_COMM_NONBLOCKING TORCH_NCCL_ASYNC_ERROR_HANDLING

step ddp
need torchrun "use an image with PyTorch"
install -m 644 "$here/ddp-smoke.py" "$root/tmp/ddp_test.py"
torchrun --nnodes="$NNODES" --nproc_per_node="$GPUS_PER_NODE" --node_rank="$JOB_COMPLETION_INDEX" \
    --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$root/tmp/ddp_test.py"
