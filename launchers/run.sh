#!/usr/bin/env bash
# Entry of every pod: prepares it, runs the recipe, and ends with the recipe's exit code; the pods of index 1 and up end
# after index 0, with its code.
# The chart sets A4_RECIPE, JOB_COMPLETION_INDEX, NNODES, SLEEP_INFINITY, and what prepare.sh and the recipe name.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=launchers/ending.sh
source "$here/ending.sh"

# A first process gets no signal it has no trap for: without this, stopping a job would take the whole grace period.
trap end_by_signal TERM

echo "pod $(hostname 2>/dev/null || echo "${HOSTNAME:-}"), index $JOB_COMPLETION_INDEX of $NNODES, recipe $A4_RECIPE"
rm -f "$step_file" "$running_file" "$ending_file" "$saves_file" "$root/tmp/a4-keep" "$root/tmp/a4-sshd" "$found_file" "$code_file"

# in_background COMMAND...: a signal is heard at once only by a shell that waits.
in_background() {
    "$@" &
    child=$!
    code=0
    wait "$child" || code=$?
}

# shellcheck disable=SC2317  # called by in_background
run_recipe() {
    # What the pod's environment has become: the gIB variables and the library path. gIB's script is not ours and
    # may use what is not set.
    set +eu
    # shellcheck source=/dev/null
    source "$root/tmp/export_init_env.sh"
    export A4_RUN="$mark"
    exec bash "$here/$A4_RECIPE.sh" "$@"
}

in_background bash "$here/prepare.sh"
if [[ "$code" -eq 0 ]]; then in_background run_recipe "$@"; fi

if has_sshd && ((NNODES > 1)); then
    ended="$code"
    if [[ "$JOB_COMPLETION_INDEX" -eq 0 ]]; then
        in_background tell_the_others "$ended"
        code="$ended"
    elif [[ "$ended" -eq 0 ]]; then
        echo "waiting for index 0 to end"
        in_background end_of_index_0
    fi
fi

# A recipe with nothing to do asks for its pods to be kept. From these lines the console reads whether it has ended.
kept="the pod is kept until the job is stopped"
if [[ "$code" -eq 0 && -e "$root/tmp/a4-keep" ]]; then
    echo "$A4_RECIPE has nothing to run; $kept"
    in_background sleep infinity
elif [[ "${SLEEP_INFINITY:-false}" == "true" || -e "$root/tmp/a4-keep" ]]; then
    echo "$A4_RECIPE ended with exit code $code; $kept"
    in_background sleep infinity
fi
echo "$A4_RECIPE ended with exit code $code"
exit "$code"
