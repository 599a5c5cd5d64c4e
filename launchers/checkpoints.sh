# shellcheck shell=bash
# Checkpoints of a training as Megatron writes them: a file in their folder names the step of the newest one.
# Sourced by run.sh, swift.sh and torchrun-megatron.sh; the recipe says in the file a4-saves where its training saves.
# The chart sets nothing for it; A4_ROOT stands before every path (empty in pods, a folder in tests).

root="${A4_ROOT:-}"
# shellcheck disable=SC2034  # of those that source this
saves_file="$root/tmp/a4-saves"
tracker=latest_checkpointed_iteration.txt

# saved_below FOLDER: the folders at it and below in which checkpoints were saved, the newest first. SWIFT makes a folder
# for each run, and its version 4 one for each checkpoint.
saved_below() {
    local file
    while IFS= read -r file; do echo "${file%/*}"; done < <(
        ls -t "$1/$tracker" "$1"/*/"$tracker" "$1"/*/*/"$tracker" 2>/dev/null
    )
}

newest_saved() {
    local folders
    folders="$(saved_below "$1")"
    echo "${folders%%$'\n'*}"
}

# saved_step FOLDER: the step of its newest checkpoint. Converted weights are no training's: they have none.
saved_step() {
    local step=""
    if [[ -n "$1" && -e "$1/$tracker" ]]; then read -r step <"$1/$tracker" || true; fi
    if [[ "$step" =~ ^[0-9]+$ ]]; then echo "$((10#$step))"; fi
}

folder_of_step() { printf '%s/iter_%07d' "$1" "$2"; }

# What is written last is there and tells of weights. Older forms have no such file, and SWIFT 4 may save the weights in
# Hugging Face's form.
is_whole() {
    has_saved "$1" "$2" weight || compgen -G "$(folder_of_step "$1" "$2")/mp_rank_*/*" >/dev/null ||
        [[ -s "$1/model.safetensors.index.json" || -s "$1/model.safetensors" ]]
}

# whole_step FOLDER: the step of its newest whole checkpoint. The framework loads the one that the file names: it is
# made to name that.
whole_step() {
    local named step best="" folder
    named="$(saved_step "$1")"
    if [[ -z "$named" ]]; then return 0; fi
    if is_whole "$1" "$named"; then
        echo "$named"
        return 0
    fi
    for folder in "$1"/iter_*; do
        step="${folder##*/iter_}"
        if [[ ! "$step" =~ ^[0-9]+$ ]]; then continue; fi
        step=$((10#$step))
        if is_whole "$1" "$step" && ((step < named && step > ${best:--1})); then best="$step"; fi
    done
    echo "the checkpoint of step $named in $1 is not whole; the newest whole one: ${best:-none}" >&2
    if [[ -n "$best" ]]; then
        echo "$best" >"$1/$tracker.part"
        mv "$1/$tracker.part" "$1/$tracker"
        echo "$best"
    fi
}

# has_saved FOLDER STEP WORD: whether the checkpoint has that state too, such as optimizer or rng_state.
has_saved() { grep -qa "$3" "$(folder_of_step "$1" "$2")/.metadata" 2>/dev/null; }

# start_of RESUME FOLDER [LAST]: where a training begins, for all pods: none for its first weights, or the step of the
# checkpoint, what else is in it, and its folder. One that has come to its LAST step has nothing to go on with.
start_of() {
    local step="" folder=""
    if [[ "$1" != "true" ]]; then
        echo "from the first weights, as asked for" >&2
    else
        while IFS= read -r folder; do
            step="$(whole_step "$folder")"
            if [[ -n "$step" ]]; then break; fi
        done < <(saved_below "$2")
    fi
    if [[ -n "$step" ]] && is_over "$folder" "$step" "${3:-}"; then
        echo "step $step in $folder is the last one of a training that is done: from the first weights" >&2
        step=""
    fi
    if [[ -z "$step" ]]; then
        echo none
        return 0
    fi
    echo "from the checkpoint of step $step in $folder$(without "$folder" "$step")" >&2
    echo "$step$(with "$folder" "$step") $folder"
}

# What a checkpoint has beside the weights, and what a training that goes on from it begins anew.
with() {
    local state
    for state in optimizer rng_state; do
        if has_saved "$1" "$2" "$state"; then echo -n " $state"; fi
    done
}

without() {
    if ! has_saved "$1" "$2" optimizer; then
        echo -n "; the optimizer and the learning rate begin anew, as they were not saved"
    fi
}

# A training that came to its end has said so beside its checkpoints (over), or its steps are counted.
is_over() {
    if [[ -n "$3" ]]; then
        (($2 >= $3))
    else
        [[ -e "$1/.a4-over" && "$(<"$1/.a4-over")" == "$2" ]]
    fi
}

# over FOLDER: for those that do not know how many steps they have.
over() {
    local folder step
    folder="$(newest_saved "$1")"
    step="$(saved_step "$folder")"
    if [[ -n "$step" ]]; then echo "$step" >"$folder/.a4-over"; fi
}
