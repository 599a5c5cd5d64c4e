# shellcheck shell=bash
# Steps of the recipes that stand on Megatron-SWIFT: Megatron-LM, the environment, and the arguments they have in common.
# Sourced by those recipes after steps.sh and sharing.sh.
# The chart sets A4_RESUME, NNODES, GPUS_PER_NODE, JOB_COMPLETION_INDEX, MASTER_ADDR, MASTER_PORT, PAI_WORKSPACE_ROOT,
# MEGATRON_LM_PATH, MODELSCOPE_CACHE, A4_MEGATRON_BRANCH, A4_SWIFT_VERSION, A4_SWIFT_EXTRA and, for trainings, the other A4_SWIFT_ ones.

root="${A4_ROOT:-}"
# shellcheck source=launchers/checkpoints.sh
source "$(dirname "${BASH_SOURCE[0]}")/checkpoints.sh"

# at_least 3.8: the image's SWIFT is that or newer.
at_least() { printf '%s\n%s\n' "$1" "$A4_SWIFT_VERSION" | sort -V -C; }

step_megatron() {
    if ! is_first; then
        step_skip megatron "index 0 does this"
    elif is_there "$root$MEGATRON_LM_PATH"; then
        if [[ ! -d "$root$MEGATRON_LM_PATH/.git" && ! -d "$root$MEGATRON_LM_PATH/megatron" ]]; then
            echo "$MEGATRON_LM_PATH is there and is no Megatron-LM: name another folder, or move it away" >&2
            exit 1
        fi
        step_skip megatron "$MEGATRON_LM_PATH is there already$(other_branch)"
    else
        step megatron
        lock "$root$MEGATRON_LM_PATH" "it clones Megatron-LM"
        if ! is_there "$root$MEGATRON_LM_PATH"; then
            clone https://github.com/NVIDIA/Megatron-LM.git "$root$MEGATRON_LM_PATH" --branch "$A4_MEGATRON_BRANCH"
        fi
        unlock
    fi
    step_sync megatron
}

# A clone that was made for another version is used, and named: it may be the person's own.
other_branch() {
    local found
    if [[ ! -d "$root$MEGATRON_LM_PATH/.git" ]]; then return; fi
    found="$(git -c safe.directory='*' -C "$root$MEGATRON_LM_PATH" describe --all --exact-match 2>/dev/null || true)"
    found="${found#heads/}"
    found="${found#tags/}"
    if [[ -n "$found" && "$found" != "$A4_MEGATRON_BRANCH" ]]; then
        echo ", at $found: SWIFT $A4_SWIFT_VERSION goes with $A4_MEGATRON_BRANCH, which another folder would get"
    fi
}

# Paths in the commands are relative to the workspace.
enter_workspace() {
    mkdir -p "$root$PAI_WORKSPACE_ROOT" "$root$MODELSCOPE_CACHE"
    cd "$root$PAI_WORKSPACE_ROOT" || exit 1
}

# megatron starts torchrun itself and asks for these.
export_ranks() {
    local device devices=()
    need megatron "use an image with ms-swift 3.6 or newer"
    for ((device = 0; device < GPUS_PER_NODE; device++)); do devices+=("$device"); done
    CUDA_VISIBLE_DEVICES="$(IFS=,; echo "${devices[*]}")"
    export CUDA_VISIBLE_DEVICES PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    export NPROC_PER_NODE="$GPUS_PER_NODE" NODE_RANK="$JOB_COMPLETION_INDEX"
}

# begin_training: index 0 says for all pods which checkpoint the training goes on from. SWIFT makes a new folder for every
# run, which goes on counting where the checkpoint stood.
begin_training() {
    step train
    saves="$A4_SWIFT_SAVE"
    if [[ "$saves" != /* ]]; then saves="$PAI_WORKSPACE_ROOT/$saves"; fi
    saves="$root$saves"
    echo "$saves" >"$saves_file"
    if is_first; then
        start="$(start_of "$A4_RESUME" "$saves")"
        post from "$start"
    fi
    start="$(read_post from)"
    checkpoint="/${start#*/}"
}

goes_on() { [[ "$start" != none ]]; }

# train KIND: with the arguments that were laid together.
train() {
    further_arguments
    megatron "$1" "${arguments[@]}"
    if is_first && ! told_elsewhere && ! is_ending; then over "$saves"; fi
}

# What both trainings have in common. SWIFT 4 calls some of it otherwise.
common_arguments() {
    local save=--save epochs=--max_epochs save_interval=--save_interval workers=--num_workers datasets=()
    if at_least 4.0; then
        save=--output_dir epochs=--num_train_epochs save_interval=--save_steps workers=--dataloader_num_workers
    fi
    mapfile -t datasets <<<"$A4_SWIFT_DATASETS"
    resume_arguments
    arguments=(
        "${resume[@]}"
        --dataset "${datasets[@]}"
        --tensor_model_parallel_size "$A4_SWIFT_TP"
        --sequence_parallel "$A4_SWIFT_SP"
        --micro_batch_size "$A4_SWIFT_MICRO_BATCH"
        --global_batch_size "$A4_SWIFT_GLOBAL_BATCH"
        --recompute_granularity "$A4_SWIFT_RECOMPUTE"
        --cross_entropy_loss_fusion true
        --lr "$A4_SWIFT_LR"
        --lr_warmup_fraction "$A4_SWIFT_WARMUP"
        --min_lr "$A4_SWIFT_MIN_LR"
        "$epochs" "$A4_SWIFT_EPOCHS"
        "$save" "$A4_SWIFT_SAVE"
        "$save_interval" "$A4_SWIFT_SAVE_INTERVAL"
        --max_length "$A4_SWIFT_MAX_LENGTH"
        "$workers" "$A4_SWIFT_WORKERS"
        --dataset_num_proc "$A4_SWIFT_DATA_PROCESSES"
    )
    if [[ "$A4_SWIFT_RECOMPUTE" == "full" ]]; then
        arguments+=(--recompute_method uniform --recompute_num_layers "$A4_SWIFT_RECOMPUTE_LAYERS")
    fi
    if [[ "$A4_SWIFT_SAVE_OPTIMIZER" != "true" ]]; then arguments+=(--no_save_optim true --no_save_rng true); fi
    signal_arguments
}

# Where it begins: --finetune true counts from 0. Version 4 loads either form of weights, by a flag of its own.
resume_arguments() {
    local load=--load
    if at_least 4.0; then load=--model; fi
    resume=("$load" "$A4_SWIFT_LOAD" --finetune true)
    if ! goes_on; then return; fi
    resume=("$load" "$checkpoint" --finetune false)
    if at_least 4.0 && has_saved "$checkpoint" "${start%% *}" weight; then
        resume=(--model "$A4_SWIFT_LOAD" --mcore_model "$checkpoint" --finetune false)
    fi
    if [[ "$start" != *" optimizer "* ]]; then resume+=(--no_load_optim true); fi
    if [[ "$start" != *" rng_state "* ]]; then resume+=(--no_load_rng true); fi
}

# Megatron saves when it gets SIGTERM if it is told so; version 4 of SWIFT has a loop of its own, which does not.
signal_arguments() {
    local flag=--megatron_extra_kwargs
    if at_least 4.0; then return; fi
    if ! at_least 3.10; then flag=--extra_megatron_kwargs; fi
    arguments+=("$flag" '{"exit_signal_handler": true}')
}

# Words a person adds, one a line.
further_arguments() {
    local further=()
    if [[ -n "$A4_SWIFT_EXTRA" ]]; then
        mapfile -t further <<<"$A4_SWIFT_EXTRA"
        arguments+=("${further[@]}")
    fi
}
