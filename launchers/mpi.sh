# shellcheck shell=bash
# mpirun over all pods of the job: index 0 runs it, the other pods serve it through sshd.
# Sourced by the recipes that use MPI, after steps.sh; prepare.sh has written the host file.
# The chart sets JOB_COMPLETION_INDEX, GPUS_PER_NODE and what pods.sh names.

# shellcheck source=launchers/pods.sh
source "$(dirname "${BASH_SOURCE[0]}")/pods.sh"

hostfile="$root/etc/job-worker-services.txt"
agent="ssh -q -o LogLevel=ERROR -o StrictHostKeyChecking=no -p $port"

# Returns on index 0 alone: run.sh lets the other pods live until it has ended.
only_index_0() {
    if [[ "$JOB_COMPLETION_INDEX" -ne 0 ]]; then exit; fi
    trap 'step_end $?' EXIT
    use_first_interface
}

# The interface of the pod's default route; nothing where there is none.
first_interface() {
    local interface destination metric mask best="" name=""
    while read -r interface destination _ _ _ _ metric mask _; do
        if [[ "$destination$mask" == 0000000000000000 && (-z "$best" || "$metric" -lt "$best") ]]; then
            best="$metric"
            name="$interface"
        fi
    done <"$root/proc/net/route"
    echo "$name"
}

# A pod has up to ten interfaces more. Open MPI would use them all, and hang where one of them carries no TCP.
use_first_interface() {
    local interface
    interface="$(first_interface)"
    network=()
    if [[ -n "$interface" ]]; then
        network=(--mca btl_tcp_if_include "$interface" --mca oob_tcp_if_include "$interface")
    else
        echo "this pod has no default route: Open MPI uses all of its interfaces"
    fi
}

# One process per GPU names its node: all of them must answer.
step_connectivity() {
    local ranks="$((GPUS_PER_NODE * NNODES))" code=0
    step connectivity
    need mpirun "use an image with Open MPI, such as the recipe's own"
    timeout "$A4_DISCOVERY_SECONDS" mpirun --allow-run-as-root -np "$ranks" -hostfile "$hostfile" \
        --mca orte_keep_fqdn_hostnames 1 ${network[@]+"${network[@]}"} \
        --mca plm_rsh_agent "$agent" hostname | tee "$root/tmp/a4-hostnames" || code=$?
    if [[ "$code" -eq 124 ]]; then
        echo "not all of the $ranks ranks answered within $A4_DISCOVERY_SECONDS s" >&2
    fi
    if [[ "$code" -ne 0 ]]; then exit "$code"; fi
    if [[ "$(wc -l <"$root/tmp/a4-hostnames")" -lt "$ranks" ]]; then
        echo "not all of the $ranks ranks answered" >&2
        exit 1
    fi
}
