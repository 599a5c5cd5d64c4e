#!/usr/bin/env bash
# NCCL by hand in one pod: all_reduce_perf over the GPUs of this pod, in one process and without mpirun.
# The chart sets GPUS_PER_NODE, A4_NCCL_BEGIN, A4_NCCL_END, A4_NCCL_FACTOR; prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${A4_ROOT:-}"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
trap 'step_end $?' EXIT

perf="$root/third_party/nccl-tests/build/all_reduce_perf"
if [[ ! -x "$perf" ]]; then
    echo "$perf is missing: the gIB diagnostic image brings it" >&2
    exit 1
fi

# A step of one byte is for one size; between two it would make a row for every byte.
by=(-i 1)
if [[ "$A4_NCCL_BEGIN" != "$A4_NCCL_END" ]]; then by=(-f "$A4_NCCL_FACTOR"); fi

step all-reduce
"$perf" -b "$A4_NCCL_BEGIN" -e "$A4_NCCL_END" "${by[@]}" -g "$GPUS_PER_NODE"
