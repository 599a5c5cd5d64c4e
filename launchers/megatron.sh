# shellcheck shell=bash
# Steps of the recipes that stand on Pai-Megatron-Patch: environment, code, model and data, conversion, training.
# Sourced by those recipes after steps.sh and sharing.sh; each step knows its own switch.
# The chart sets the SKIP_ switches, MP_DATASET_TYPE and its like, and every A4_ variable that is read here; the
# recipe's page in the form says what each means.

root="${A4_ROOT:-}"
launchers="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
held="$root/tmp/a4-held.txt"
pai_code="$root$A4_CODE"

# skips SWITCH STEP: true, and said, when the switch is on.
skips() {
    if [[ "${!1}" == "true" ]]; then step_skip "$2" "$1=true"; else return 1; fi
}

# With nothing to do the pods are for shells: run.sh keeps them.
keep_when_all_is_skipped() {
    local switch
    for switch in "$@"; do
        if [[ "${!switch}" != "true" ]]; then return; fi
    done
    touch "$root/tmp/a4-keep"
}

# On every pod: packages in one pod's image are in no other's.
step_environment() {
    local driver=/usr/local/lib/python3.12/dist-packages/triton/backends/nvidia/driver.py package packages=()
    if skips SKIP_ENV_SETUP environment; then return; fi
    step environment
    need pip "use an image with Python"
    if [[ -e "$root$driver" ]]; then
        # Triton calls ldconfig by its bare name, which is not on every PATH, and reads its answer as plain text.
        sed -i 's|libs = subprocess.check_output(\["ldconfig"|libs = subprocess.check_output(["/sbin/ldconfig"|g' "$root$driver"
        sed -i '/\/sbin\/ldconfig/s|\.decode()|.decode(errors="ignore")|' "$root$driver"
    else
        echo "no $driver in this image: Triton stays as it is"
    fi
    if [[ "$A4_UPGRADE_NCCL" == "true" ]]; then pip install --upgrade 'nvidia-nccl-cu12~=2.28'; fi
    read -ra packages <<<"$A4_PACKAGES"
    if ((${#packages[@]})); then pip install "${packages[@]}"; fi
    read -ra packages <<<"$A4_BUILT_PACKAGES"
    # pip would leave parts of the image's own beside a Transformer Engine that is built here.
    if [[ "$A4_BUILT_PACKAGES" == *TransformerEngine* ]]; then
        pip uninstall -y transformer-engine transformer-engine-cu12 transformer-engine-torch
    fi
    if ((${#packages[@]})); then hold_packages; fi
    # One by one: later ones are built against those before.
    for package in ${packages[@]+"${packages[@]}"}; do
        echo "$package is compiled in every pod; an image that has it saves this"
        NVTE_FRAMEWORK=pytorch CAUSAL_CONV1D_FORCE_BUILD=TRUE pip install --no-build-isolation -c "$held" "$package"
    done
}

# A package that asks for another PyTorch or for another version of what was just installed is to fail, not to bring it.
hold_packages() {
    local package names=torch
    for package in $A4_PACKAGES; do
        package="${package##*/}"
        names+="|${package%%[^-_a-zA-Z0-9]*}"
    done
    pip list --format=freeze | grep -iE "^(${names//[-_]/[-_]})==" >"$held" || true
}

step_clone() {
    if skips SKIP_CLONE_REPO clone; then return; fi
    if ! is_first; then
        step_skip clone "index 0 does this"
        return
    fi
    step clone
    lock "$pai_code" "it clones $A4_CODE"
    clone_or_update
    unlock
}

clone_or_update() {
    if [[ ! -d "$pai_code/.git" ]] && is_there "$pai_code"; then
        if [[ -n "$A4_CODE_REVISION" ]]; then
            echo "$A4_CODE is there and is no git clone: revision $A4_CODE_REVISION cannot be had of it" >&2
            exit 1
        fi
        echo "$A4_CODE is there, though not from git: it is used as it is"
        return
    fi
    if [[ -d "$pai_code/.git" ]]; then
        echo "$A4_CODE is there already"
        update_code
    else
        clone "$A4_CODE_REPOSITORY" "$pai_code" --recurse-submodules
    fi
    if [[ -n "$A4_CODE_REVISION" ]]; then in_code checkout "$A4_CODE_REVISION"; fi
    in_code submodule update --init --recursive
}

# On shared storage the clone may belong to another user, which git takes for an attack.
in_code() { git -c safe.directory='*' -C "$pai_code" "$@"; }

# Newer code if it can be had; local changes, a checked-out tag or a missing network leave it as it is.
update_code() {
    local how=(pull --ff-only)
    need git "use an image with git"
    if [[ -n "$A4_CODE_REVISION" ]]; then how=(fetch --tags); fi
    in_code "${how[@]}" || echo "git ${how[0]} failed: the code stays as it is"
}

step_download() {
    local files=()
    if skips SKIP_DOWNLOAD_DATA download; then return; fi
    if ! is_first; then
        step_skip download "index 0 does this"
        return
    fi
    step download
    lock "$root$A4_HF_FOLDER" "it downloads into $A4_HF_FOLDER"
    download_model
    unlock
    read -ra files <<<"$A4_DATA_FILES"
    lock "$root$A4_DATA_FOLDER" "it downloads into $A4_DATA_FOLDER"
    if [[ -e "$root$A4_DATA_FOLDER/.a4-complete" && "$(<"$root$A4_DATA_FOLDER/.a4-complete")" == "$A4_DATA_FILES" ]]; then
        echo "the data are in $A4_DATA_FOLDER already"
    else
        fetch "$root$A4_DATA_FOLDER" ${files[@]+"${files[@]}"}
        echo "$A4_DATA_FILES" >"$root$A4_DATA_FOLDER/.a4-complete"
    fi
    unlock
}

# of_this_model FOLDER: its marker names the model whose weights lie in it; two in one folder would be neither.
of_this_model() {
    local there=""
    if [[ -e "$root$1/.a4-complete" ]]; then there="$(<"$root$1/.a4-complete")"; fi
    if [[ -n "$there" && "$there" != "$A4_MODEL_ID" ]]; then
        echo "$1 holds the weights of $there, not of $A4_MODEL_ID: name another folder, or delete it" >&2
        exit 1
    fi
}

download_model() {
    local folder="$root$A4_HF_FOLDER"
    of_this_model "$A4_HF_FOLDER"
    if [[ -e "$folder/.a4-complete" ]]; then
        echo "$A4_MODEL_ID is in $A4_HF_FOLDER already"
        return
    fi
    mkdir -p "$folder"
    if [[ "$A4_MODEL_HUB" == "modelscope" ]]; then
        command -v modelscope >/dev/null || pip install 'modelscope~=1.40'
        several_times modelscope download --model "$A4_MODEL_ID" --local_dir "$folder"
    else
        local hub=huggingface-cli
        # From version 1 on the client has the short name alone.
        if ! command -v "$hub" >/dev/null && command -v hf >/dev/null; then hub=hf; fi
        command -v "$hub" >/dev/null || pip install 'huggingface_hub[cli]>=0.34,<1.0'
        several_times "$hub" download "$A4_MODEL_ID" --local-dir "$folder"
    fi
    echo "$A4_MODEL_ID" >"$folder/.a4-complete"
    du -sh "$folder"
}

# Indexed fine-tuning data: the sequence length must be the training's. The script ends well whether or not its Python
# did: the data are built when their files are there.
step_build_data() {
    local arguments=(
        "$A4_SFT_SOURCE"
        "$A4_TOKENIZER"
        "$A4_SEQ_LEN"
        "$A4_SFT_PREFIX"
        "$A4_HF_FOLDER"
        "$MP_SFT_PACKING"
    )
    local data="$root${A4_SFT_PREFIX}_text_document"
    local marker="$data.a4-complete"
    if skips SKIP_DATA_BUILD build-data; then return; fi
    if ! is_first; then
        step_skip build-data "index 0 does this"
        return
    fi
    lock "$data" "it builds ${A4_SFT_PREFIX}_text_document"
    if [[ -s "$data.bin" && -s "$data.idx" && -e "$marker" && "$(<"$marker")" == "${arguments[*]}" ]]; then
        unlock
        step_skip build-data "${A4_SFT_PREFIX}_text_document is there already"
        return
    fi
    step build-data
    rm -f "$data.bin" "$data.idx" "$marker"
    (cd "$pai_code/toolkits/sft_data_preprocessing" && bash run_build_idxmap_sft_dataset.sh "${arguments[@]}")
    if [[ ! -s "$data.bin" || ! -s "$data.idx" ]]; then
        echo "the script has built no ${A4_SFT_PREFIX}_text_document.bin and .idx: its last lines above say why" >&2
        exit 1
    fi
    echo "${arguments[*]}" >"$marker"
    unlock
}

# What the scripts read of the pod: their WORLD_SIZE is the number of nodes, their RANK the node's.
on_all_nodes() {
    OMP_NUM_THREADS=12 WORLD_SIZE="$NNODES" RANK="$JOB_COMPLETION_INDEX" \
        KUBERNETES_CONTAINER_RESOURCE_GPU="$GPUS_PER_NODE" bash "$@"
}

# convert_weights to-mcore|to-hf: all pods take part, and index 0 decides for all of them whether it is needed.
convert_weights() {
    local script="scripts/$A4_FAMILY/run_8xH20.sh" target needed arguments=()
    if [[ "$A4_MODEL_SIZE" == "A22B" ]]; then script="scripts/$A4_FAMILY/run_A22B_16xH20.sh"; fi
    if [[ "$1" == "to-hf" ]]; then
        target="$A4_EXPORT_FOLDER"
        arguments=("$A4_MODEL_SIZE" "$A4_MCORE_FOLDER" "$target" true "$A4_CONVERT_CUDA" "$A4_CONVERT_PR" "$A4_HF_FOLDER")
    else
        target="$A4_MCORE_FOLDER"
        arguments=("$A4_MODEL_SIZE" "$A4_HF_FOLDER" "$target" false "$A4_CONVERT_CUDA" "$A4_CONVERT_PR")
    fi
    of_this_model "$target"
    if is_first; then
        lock "$root$target" "it converts into $target"
        of_this_model "$target"
        if is_converted "$root$target"; then unlock; fi
        post convert "$(if [[ -n "$locked" ]]; then echo yes; else echo no; fi)"
    fi
    needed="$(read_post convert)"
    if [[ "$needed" == "no" ]]; then
        step_skip convert "$target is converted already"
        return
    fi
    step convert
    (cd "$pai_code/toolkits/distributed_checkpoints_convertor" && on_all_nodes "$script" "${arguments[@]}")
    if is_first; then
        echo "$A4_MODEL_ID" >"$root$target/.a4-complete"
        unlock
    fi
}

# A folder that exists proves nothing; what is written last does.
is_converted() { [[ -e "$1/.a4-complete" || -e "$1/latest_checkpointed_iteration.txt" ]]; }

step_convert() {
    if skips SKIP_CHECKPOINT_CONVERSION convert; then return; fi
    convert_weights to-mcore
}

step_train() {
    if skips SKIP_TRAINING train; then return; fi
    step train
    echo "$A4_TRAIN_ITERATIONS iterations of $A4_GLOBAL_BATCH_SIZE samples, results in $A4_OUTPUT_BASEPATH"
    run_training train
}

# The fine-tuning on JSON data that Qwen3-Next can have after the other training.
step_train_json() {
    if [[ "$SKIP_TRAINING" == "true" || "$USE_JSON_SFT" != "true" ]]; then return; fi
    step train-json
    local -x MP_DATASET_TYPE=raw
    local A4_SFT=true A4_TRAIN_TOKENS_OR_ITERS=10000 A4_WARMUP_TOKENS_OR_ITERS=100
    local A4_DATASET_PATH="$A4_DATA_FOLDER/alpaca_zh-train-general.json"
    local A4_VALID_DATASET_PATH="$A4_DATA_FOLDER/alpaca_zh-valid-general.json"
    local A4_OUTPUT_BASEPATH="${A4_OUTPUT_BASEPATH%/*}/output_mcore_qwen3_next_sft_json"
    run_training train-json
}

# The script's 27 arguments say nothing of a save at SIGTERM, of the optimizer, nor of the checkpoint to go on from.
use_own_torchrun() {
    mkdir -p "$root/tmp/a4-bin"
    install -m 755 "$launchers/torchrun-megatron.sh" "$root/tmp/a4-bin/torchrun"
}

# The 27 arguments of run_mcore_qwen3.sh, in its order and by its names.
run_training() {
    local arguments=(
        "$A4_ENV"
        "$A4_MODEL_SIZE"
        "$A4_BATCH_SIZE"
        "$A4_GLOBAL_BATCH_SIZE"
        "$A4_LR"
        "$A4_MIN_LR"
        "$A4_SEQ_LEN"
        "$A4_PAD_LEN"
        "$A4_PR"
        "$A4_TP"
        "$A4_PP"
        "$A4_CP"
        "$A4_ETP"
        "$A4_EP"
        "$A4_SP"
        "$A4_DO"
        "$A4_FL"
        "$A4_SFT"
        "$A4_AC"
        "$A4_OPTIMIZER_OFFLOAD"
        "$A4_SAVE_INTERVAL"
        "$A4_DATASET_PATH"
        "$A4_VALID_DATASET_PATH"
        "$A4_PRETRAIN_CHECKPOINT_PATH"
        "$A4_TRAIN_TOKENS_OR_ITERS"
        "$A4_WARMUP_TOKENS_OR_ITERS"
        "$A4_OUTPUT_BASEPATH"
    )
    use_own_torchrun
    local -x PATH="$root/tmp/a4-bin:$PATH" A4_TRAINING="$1" A4_LAUNCHERS="$launchers"
    (cd "$pai_code/examples/$A4_FAMILY" && on_all_nodes run_mcore_qwen3.sh "${arguments[@]}")
}
