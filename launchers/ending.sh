# shellcheck shell=bash
# How a pod ends that is told to by SIGTERM (preemption, a drained node, a stopped job): the training gets the signal, may
# save until the grace period is over, and the log says what came of it.
# Sourced by run.sh, which marks what the recipe starts with A4_RUN.
# The chart sets A4_GRACE_SECONDS, A4_RECIPE and what pods.sh names.

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=launchers/pods.sh
source "$here/pods.sh"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/checkpoints.sh
source "$here/checkpoints.sh"

child=""
newest=""
mark="$$-$RANDOM$RANDOM"

# with_variable PATTERN: processes of this pod that have such a variable. In tests the pod is a folder.
with_variable() {
    local file
    while IFS= read -r file; do
        if [[ -z "$root" ]] || grep -qzsxF "A4_ROOT=$root" "$file"; then
            file="${file#/proc/}"
            echo "${file%/environ}"
        fi
    done < <(grep -lzsE "^($1)" /proc/[0-9]*/environ)
}

parent_of() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null || true; }

# Processes that torchrun or mpirun has started, without what these have forked. They are told themselves: torchrun kills
# them 30 s after it is told, and mpirun after less.
ranks_here() {
    local all pid
    all="$(with_variable 'LOCAL_RANK=|OMPI_COMM_WORLD_LOCAL_RANK=')"
    all=" ${all//$'\n'/ } "
    for pid in $all; do
        if [[ "$all" != *" $(parent_of "$pid") "* ]]; then echo "$pid"; fi
    done
}

# What the recipe has started and still runs, and what run.sh itself has: the signal may have come before that had a name.
of_recipe() {
    local pid
    with_variable "A4_RUN=$mark"
    for pid in $child $newest; do
        if kill -0 "$pid" 2>/dev/null; then echo "$pid"; fi
    done
}

tell_to_end() {
    local pid
    for pid in $1; do kill -TERM "$pid" 2>/dev/null || true; done
}

# is_left PROCESSES OTHERS: one of these is among the others.
is_left() {
    local pid
    for pid in $1; do
        if [[ " ${2//$'\n'/ } " == *" $pid "* ]]; then return 0; fi
    done
    return 1
}

# wait_for_end LIMIT: tells what runs to end, and waits; 1 when it has not ended by then.
wait_for_end() {
    local began="$SECONDS" seen="$SECONDS" told now rest
    told="$(ranks_here)"
    if [[ -z "$told" ]]; then tell_to_end "$(of_recipe)"; fi
    tell_to_end "$told"
    while true; do
        now="$(ranks_here)"
        rest="$(of_recipe)"
        if [[ -z "$now$rest" ]]; then return 0; fi
        if ((SECONDS - began >= $1)); then return 1; fi
        if is_left "$told" "$now"; then
            seen="$SECONDS"
        elif [[ -n "$told" ]] && { [[ -n "$now" ]] || ((SECONDS - seen >= 10)); }; then
            # Whoever had started them does so again, or does not end although they have.
            tell_to_end "$rest"
            told=""
        fi
        sleep 0.5
    done
}

# Where a training saves, as the recipe has said it; nothing where it does not.
saves_now() {
    local folder=""
    if [[ -e "$saves_file" ]]; then folder="$(newest_saved "$(<"$saves_file")")"; fi
    if [[ -n "$folder" ]]; then echo "$folder $(saved_step "$folder")"; fi
}

what_is_saved() {
    local before="$1" after="$2"
    if [[ ! -e "$saves_file" ]]; then return 0; fi
    if [[ ! "$after" =~ \ [0-9]+$ ]]; then
        echo "; no checkpoint"
    elif [[ "$after" != "$before" ]]; then
        echo " after saving step ${after##* }"
    else
        echo "; the newest checkpoint is of step ${after##* }"
    fi
}

# SIGTERM may come at any moment; run.sh calls this in its trap, in which a return without a number means the code before it.
end_by_signal() {
    local before how="ended by SIGTERM" saved limit="$A4_GRACE_SECONDS"
    newest="${!:-}"
    trap : TERM
    : >"$ending_file"
    if [[ -n "${PAI_WORKSPACE_ROOT:-}" ]]; then post_ending "$JOB_COMPLETION_INDEX"; fi
    before="$(saves_now)"
    # The rest of the grace period is for the log that is kept, and for whoever is late.
    limit=$((limit > 40 ? limit - 10 : limit * 3 / 4))
    if ! wait_for_end "$limit"; then how="did not end in the grace period of $A4_GRACE_SECONDS s"; fi
    saved="$(what_is_saved "$before" "$(saves_now)")"
    if [[ "$how" == did* ]]; then saved="${saved/#" after saving"/", after saving"}"; fi
    if [[ -s "$running_file" ]]; then echo "step $(<"$running_file"): $how$saved"; fi
    # Of a pod that is kept it has been told how its recipe ended.
    if [[ -z "${kept:-}" ]]; then echo "$A4_RECIPE ended with exit code 143"; fi
    exit 143
}
