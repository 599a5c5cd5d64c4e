#!/usr/bin/env bash
# NCCL all-reduce over all GPUs: index 0 runs nccl-tests under mpirun, the other pods serve it through sshd and end with
# its exit code.
# The chart sets JOB_COMPLETION_INDEX, NNODES, GPUS_PER_NODE, HOSTNAME_PREFIX, DOMAIN_NAME and
# A4_NCCL_BEGIN, A4_NCCL_END, A4_NCCL_FACTOR, A4_NCCL_ITERS, A4_NCCL_WARMUP; prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${A4_ROOT:-}"
pause="${A4_RETRY_SECONDS:-2}"
port="${A4_SSH_PORT:-2222}"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"

hostfile="$root/etc/job-worker-services.txt"
environment="$root/tmp/export_init_env.sh"
tests="$root/third_party/nccl-tests"
agent="ssh -q -o LogLevel=ERROR -o StrictHostKeyChecking=no -p $port"

# The pods of index 1 and up must outlive the test, and none of them may look successful when it was not.
tell_the_others() {
    local code="$1" index worker try
    for ((index = 1; index < NNODES; index++)); do
        worker="${HOSTNAME_PREFIX}0-$index.$DOMAIN_NAME"
        for ((try = 0; try < 3; try++)); do
            if ssh -q -F "$root/root/.ssh/config" -o BatchMode=yes -o ConnectTimeout=5 -p "$port" "$worker" \
                "echo $code >$root/tmp/a4-exit-code.part && mv $root/tmp/a4-exit-code.part $root/tmp/a4-exit-code"; then
                break
            fi
            sleep "$pause"
        done
    done
}

if [[ "$JOB_COMPLETION_INDEX" -ne 0 ]]; then
    echo "waiting for index 0"
    until [[ -e "$root/tmp/a4-exit-code" ]]; do sleep "$pause"; done
    exit "$(<"$root/tmp/a4-exit-code")"
fi

trap 'code=$?; step_end "$code"; tell_the_others "$code"' EXIT

if [[ ! -x "$tests/build/all_reduce_perf" ]]; then
    echo "$tests/build/all_reduce_perf is missing: the gIB diagnostic image brings it" >&2
    exit 1
fi

step connectivity
ranks="$((GPUS_PER_NODE * NNODES))"
mpirun --allow-run-as-root -np "$ranks" -hostfile "$hostfile" --mca orte_keep_fqdn_hostnames 1 \
    --mca plm_rsh_agent "$agent" hostname | tee "$root/tmp/a4-hostnames"
if [[ "$(wc -l <"$root/tmp/a4-hostnames")" -lt "$ranks" ]]; then
    echo "not all of the $ranks ranks answered" >&2
    exit 1
fi

step all-reduce
mpirun --allow-run-as-root --hostfile "$hostfile" -wdir "$tests" -mca plm_rsh_no_tree_spawn 1 \
    --mca orte_keep_fqdn_hostnames 1 --map-by slot --mca plm_rsh_agent "$agent" \
    bash -c "source $environment && ./build/all_reduce_perf -b $A4_NCCL_BEGIN -e $A4_NCCL_END -f $A4_NCCL_FACTOR -n $A4_NCCL_ITERS -g 1 -w $A4_NCCL_WARMUP"
