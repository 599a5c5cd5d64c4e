# shellcheck shell=bash
# Progress lines that people and the console read: "step 3 discovery: run", then "done in 12 s", "skip: why" or
# "failed with exit code 1". Sourced by every launcher; numbers go on from one script of the pod to the next.
# A pod that is told to end begins nothing more, and ending.sh says how the step that ran has ended.
# The chart sets nothing for it; A4_ROOT stands before every path (empty in pods, a folder in tests).

step_file="${A4_ROOT:-}/tmp/a4-step"
running_file="${A4_ROOT:-}/tmp/a4-running"
ending_file="${A4_ROOT:-}/tmp/a4-ending"
step_name=""

# need PROGRAM WHAT: an image that lacks a program is named, instead of a "command not found" in the middle.
need() {
    if ! command -v "$1" >/dev/null; then
        echo "this image has no $1: $2" >&2
        exit 1
    fi
}

is_ending() { [[ -e "$ending_file" ]]; }

step_number() {
    local number=0
    if [[ -e "$step_file" ]]; then number="$(<"$step_file")"; fi
    echo "$((number + 1))" >"$step_file"
}

step() {
    step_done
    if is_ending; then exit 143; fi
    step_number
    step_name="$1"
    echo "$(<"$step_file") $step_name" >"$running_file"
    step_started="$SECONDS"
    echo "step $(<"$step_file") $step_name: run"
}

step_done() {
    if is_ending; then step_name=""; fi
    if [[ -n "$step_name" ]]; then
        # A training that saves and ends for one pod's SIGTERM ends well in all of them.
        if declare -F told_elsewhere >/dev/null && told_elsewhere; then step_over "ended by the SIGTERM of another pod" 143; fi
        step_over "done in $((SECONDS - step_started)) s"
    fi
}

# step_over HOW [CODE]: the line that ends the step, and the recipe with it when there is a code.
step_over() {
    echo "step $(<"$step_file") $step_name: $1"
    step_name=""
    rm -f "$running_file"
    if [[ -n "${2:-}" ]]; then exit "$2"; fi
}

step_skip() {
    step_done
    step_number
    echo "step $(<"$step_file") $1: skip: $2"
}

step_end() {
    local code="$1"
    if [[ -n "$step_name" && "$code" -ne 0 ]] && ! is_ending; then
        step_over "failed with exit code $code"
    else
        step_done
    fi
    if ! declare -F leave_share >/dev/null; then return; fi
    if [[ "$code" -eq 0 ]]; then leave_share; else fail_share "$code"; fi
}
