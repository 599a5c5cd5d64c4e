# shellcheck shell=bash
# How the pods of a job reach each other through sshd, and how they end: index 0 looks for the others and tells them how
# it has ended; the others live until then, since whatever index 0 does may need their sshd.
# Sourced by run.sh, prepare.sh, mpi.sh and sharing.sh.
# The chart sets NNODES, JOB_COMPLETION_INDEX, HOSTNAME_PREFIX, DOMAIN_NAME, A4_DISCOVERY_SECONDS; for recipes with a
# workspace also PAI_WORKSPACE_ROOT, JOB_ID (the release) and JOB_IDENTIFIER (the release and what differs for every run
# and every restart).
# Between two tries are A4_RETRY_SECONDS (2); index 0 is lost when its sshd has not answered for A4_LOST_SECONDS (300).

root="${A4_ROOT:-}"
pause="${A4_RETRY_SECONDS:-2}"
port="${A4_SSH_PORT:-2222}"
lost="${A4_LOST_SECONDS:-300}"
found_file="$root/tmp/a4-found"
code_file="$root/tmp/a4-exit-code"

pod_name() { echo "${HOSTNAME_PREFIX}0-$1.$DOMAIN_NAME"; }

namespace_of_pod() {
    local name="${DOMAIN_NAME#*.}"
    echo "${name%%.*}"
}

# flags_of RUN: by which index 0 lets the others go on, in the workspace that they share. Other namespaces may share it
# too, and have releases of the same name.
flags_of() { echo "$root$PAI_WORKSPACE_ROOT/sync_flags_$(namespace_of_pod).$1"; }

# post_ending INDEX: this pod is told to end; whatever ends well in the others from now on may not have done its work.
post_ending() {
    local flags
    flags="$(flags_of "$JOB_IDENTIFIER")"
    if [[ -d "$flags" ]]; then : >"$flags/sigterm-$1" || true; fi
}

on_pod() {
    ssh -q -F "$root/root/.ssh/config" -o BatchMode=yes -o ConnectTimeout=5 -p "$port" "$@"
}

# Whether this pod takes part: an image without sshd may, where the recipe needs none.
has_sshd() { [[ -e "$root/tmp/a4-sshd" ]]; }

# A pod that has answered knows it, even when it ends before this connection does.
tell() {
    local try answer
    for ((try = 0; try < 3; try++)); do
        answer="$(on_pod "$1" "echo $2 >$code_file.part && mv $code_file.part $code_file && echo told" || true)"
        if [[ "$answer" == told ]]; then return; fi
        sleep "$pause"
    done
    echo "$1 has not heard that index 0 ended with exit code $2"
}

# The pods of index 1 and up must outlive index 0, and none of them may look successful when it was not.
tell_the_others() {
    local index
    for ((index = 1; index < NNODES; index++)); do
        tell "$(pod_name "$index")" "$1" &
    done
    wait
}

# The other pods begin when index 0 has found them: one that ended before would never be found.
wait_to_be_found() {
    local deadline=$((SECONDS + A4_DISCOVERY_SECONDS))
    echo "waiting for index 0"
    until [[ -e "$found_file" ]]; do
        if ((SECONDS >= deadline)); then
            echo "index 0 has not been heard of within $A4_DISCOVERY_SECONDS s: look why its pod is not there" >&2
            exit 1
        fi
        sleep "$pause"
    done
    echo "found by index 0"
}

# index_0_answers: a connection and no login, as it is asked for by every pod.
index_0_answers() { timeout 5 bash -c ": <>/dev/tcp/$(pod_name 0)/$port" 2>/dev/null; }

# Exit code of index 0, once it has ended. One that went away without a word fails the job by its own pod.
end_of_index_0() {
    local heard="$SECONDS" asked="$SECONDS"
    until [[ -e "$code_file" ]]; do
        sleep "$pause"
        if ((SECONDS - asked < lost / 10)); then continue; fi
        asked="$SECONDS"
        if index_0_answers; then
            heard="$SECONDS"
        elif ((SECONDS - heard >= lost)); then
            echo "index 0 has not answered for $lost s: this pod ends without it"
            return
        fi
    done
    sleep "$pause" # the connection that told it is to end before this pod does, or index 0 takes it for unheard
    return "$(<"$code_file")"
}
