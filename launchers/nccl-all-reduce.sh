#!/usr/bin/env bash
# NCCL all-reduce over all GPUs: index 0 runs nccl-tests under mpirun, the other pods serve it.
# The chart sets what mpi.sh names, and A4_NCCL_BEGIN, A4_NCCL_END, A4_NCCL_FACTOR, A4_NCCL_ITERS, A4_NCCL_WARMUP;
# prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${A4_ROOT:-}"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/mpi.sh
source "$here/mpi.sh"

environment="$root/tmp/export_init_env.sh"
tests="$root/third_party/nccl-tests"

only_index_0
if [[ ! -x "$tests/build/all_reduce_perf" ]]; then
    echo "$tests/build/all_reduce_perf is missing: the gIB diagnostic image brings it" >&2
    exit 1
fi

step_connectivity

step all-reduce
mpirun --allow-run-as-root --hostfile "$hostfile" -wdir "$tests" -mca plm_rsh_no_tree_spawn 1 \
    --mca orte_keep_fqdn_hostnames 1 ${network[@]+"${network[@]}"} --map-by slot --mca plm_rsh_agent "$agent" \
    bash -c "source $environment && ./build/all_reduce_perf -b $A4_NCCL_BEGIN -e $A4_NCCL_END -f $A4_NCCL_FACTOR -n $A4_NCCL_ITERS -g 1 -w $A4_NCCL_WARMUP"
