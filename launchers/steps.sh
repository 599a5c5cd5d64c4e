# shellcheck shell=bash
# Progress lines that people and the console read: "step 3 discovery: run", then "done in 12 s", "skip: why" or
# "failed with exit code 1". Sourced by every launcher; numbers go on from one script of the pod to the next.
# The chart sets nothing for it; A4_ROOT stands before every path (empty in pods, a folder in tests).

step_file="${A4_ROOT:-}/tmp/a4-step"
step_name=""

# need PROGRAM WHAT: an image that lacks a program is named, instead of a "command not found" in the middle.
need() {
    if ! command -v "$1" >/dev/null; then
        echo "this image has no $1: $2" >&2
        exit 1
    fi
}

step_number() {
    local number=0
    if [[ -e "$step_file" ]]; then number="$(<"$step_file")"; fi
    echo "$((number + 1))" >"$step_file"
}

step() {
    step_done
    step_number
    step_name="$1"
    step_started="$SECONDS"
    echo "step $(<"$step_file") $step_name: run"
}

step_done() {
    if [[ -n "$step_name" ]]; then
        echo "step $(<"$step_file") $step_name: done in $((SECONDS - step_started)) s"
        step_name=""
    fi
}

step_skip() {
    step_done
    step_number
    echo "step $(<"$step_file") $1: skip: $2"
}

step_end() {
    local code="$1"
    if [[ -n "$step_name" && "$code" -ne 0 ]]; then
        echo "step $(<"$step_file") $step_name: failed with exit code $code"
    else
        step_done
    fi
    if [[ "$code" -eq 0 ]] && declare -F leave_share >/dev/null; then leave_share; fi
}
