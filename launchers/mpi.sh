# shellcheck shell=bash
# mpirun over all pods of the job: index 0 runs it, the other pods serve it through sshd and end with its exit code.
# Sourced by the recipes that use MPI, after steps.sh; prepare.sh has written the host file.
# The chart sets JOB_COMPLETION_INDEX, NNODES, GPUS_PER_NODE, HOSTNAME_PREFIX, DOMAIN_NAME.

root="${A4_ROOT:-}"
pause="${A4_RETRY_SECONDS:-2}"
port="${A4_SSH_PORT:-2222}"

hostfile="$root/etc/job-worker-services.txt"
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

# Returns on index 0 alone; the other pods wait in here for how it ends there.
only_index_0() {
    if [[ "$JOB_COMPLETION_INDEX" -ne 0 ]]; then
        echo "waiting for index 0"
        until [[ -e "$root/tmp/a4-exit-code" ]]; do sleep "$pause"; done
        exit "$(<"$root/tmp/a4-exit-code")"
    fi
    trap 'code=$?; step_end "$code"; tell_the_others "$code"' EXIT
}

# One process per GPU names its node: all of them must answer.
step_connectivity() {
    local ranks="$((GPUS_PER_NODE * NNODES))"
    step connectivity
    need mpirun "use an image with Open MPI, such as the recipe's own"
    mpirun --allow-run-as-root -np "$ranks" -hostfile "$hostfile" --mca orte_keep_fqdn_hostnames 1 \
        --mca plm_rsh_agent "$agent" hostname | tee "$root/tmp/a4-hostnames"
    if [[ "$(wc -l <"$root/tmp/a4-hostnames")" -lt "$ranks" ]]; then
        echo "not all of the $ranks ranks answered" >&2
        exit 1
    fi
}
