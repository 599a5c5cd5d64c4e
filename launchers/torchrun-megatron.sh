#!/usr/bin/env bash
# Stands before torchrun where run_mcore_qwen3.sh of Pai-Megatron-Patch calls it: adds what that script has no argument
# for. A training saves when it gets SIGTERM, goes on from its newest whole checkpoint, and saves its optimizer if asked.
# The chart sets A4_RESUME, A4_SAVE_OPTIMIZER and what sharing.sh names; megatron.sh sets A4_TRAINING, the step it is.
set -euo pipefail

here="$A4_LAUNCHERS" # this file is a copy, named torchrun
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/sharing.sh
source "$here/sharing.sh"
# shellcheck source=launchers/checkpoints.sh
source "$here/checkpoints.sh"

# value_of NAME WORDS...: what follows that flag.
value_of() {
    local name="$1" before=""
    shift
    for word in "$@"; do
        if [[ "$before" == "$name" ]]; then
            echo "$word"
            return
        fi
        before="$word"
    done
}

save="$(value_of --save "$@")"
total="$(value_of --train-iters "$@")"
echo "$save" >"$saves_file"
if is_first; then
    start="$(start_of "$A4_RESUME" "$save" "$total")"
    post "from-$A4_TRAINING" "$start"
fi
start="$(read_post "from-$A4_TRAINING")"

words=()
for word in "$@"; do
    case "$word" in
    --no-save-optim) if [[ "$A4_SAVE_OPTIMIZER" == "true" ]]; then continue; fi ;;
    --no-load-optim) if [[ "$start" == *" optimizer"* ]]; then continue; fi ;;
    --no-load-rng) if [[ "$start" == *" rng_state"* ]]; then continue; fi ;;
    esac
    words+=("$word")
done
if [[ "$start" != none ]]; then words+=(--load "$save"); fi

PATH="${PATH//"$root/tmp/a4-bin:"/}"
exec torchrun "${words[@]}" --exit-signal-handler
