#!/usr/bin/env bash
# Evaluation of weights in Hugging Face's form with lm-eval, on one node.
# The chart sets what sharing.sh and megatron.sh's first steps name, SKIP_DOWNLOAD_DATA, A4_EXPORT_FOLDER,
# A4_EVAL_TASKS, A4_EVAL_BATCH, A4_EVAL_PORT, A4_EVAL_TRUST, A4_EVAL_FILES, A4_EVAL_SOURCE; prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/sharing.sh
source "$here/sharing.sh"
# shellcheck source=launchers/megatron.sh
source "$here/megatron.sh"
trap 'step_end $?' EXIT

evaluation="$share/evaluation"

# The offline harness reads its benchmarks below /workspace.
link_benchmarks() {
    local folder place
    mkdir -p "$root/workspace"
    for folder in "$evaluation"/*/; do
        if [[ ! -d "$folder" ]]; then continue; fi
        folder="${folder%/}"
        place="$root/workspace/${folder##*/}"
        if [[ -L "$place" || ! -e "$place" ]]; then ln -sfn "$folder" "$place"; fi
    done
}

# from_hub STEP: true, and said, when lm-eval and its data come from the hub.
from_hub() {
    if [[ "$A4_EVAL_SOURCE" == "hub" ]]; then step_skip "$1" "lm-eval and its data come from the hub"; else return 1; fi
}

if ! from_hub clone; then
    step_clone
fi
if from_hub download || skips SKIP_DOWNLOAD_DATA download; then
    mkdir -p "$evaluation"
else
    step download
    read -ra files <<<"$A4_EVAL_FILES"
    lock "$evaluation" "it downloads into $PAI_WORKSPACE_ROOT/evaluation"
    fetch "$evaluation" "${files[@]}"
    for file in "${files[@]}"; do tar -xzf "$evaluation/${file##*/}" -C "$evaluation"; done
    unlock
fi

step harness
if [[ "$A4_EVAL_SOURCE" == "archives" ]]; then
    link_benchmarks
    if [[ ! -d "$pai_code/lm_eval" ]]; then
        echo "$A4_CODE has no lm_eval: name the repository and the folder of the offline harness" >&2
        exit 1
    fi
    export PYTHONPATH="$pai_code${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1
    if [[ "$A4_EVAL_TRUST" == "True" ]]; then export HF_DATASETS_TRUST_REMOTE_CODE=1; fi
    if python3 -c "import lm_eval.__main__"; then
        echo "lm-eval of $A4_CODE, with the archives of $PAI_WORKSPACE_ROOT/evaluation"
    else
        echo "this image lacks what lm-eval of $A4_CODE imports: pip installs it"
        pip install "$pai_code"
    fi
else
    pip install 'lm_eval~=0.4.9'
fi

step evaluate
need accelerate "use an image with Hugging Face's accelerate"
cd "$evaluation"
accelerate launch --main_process_port "$A4_EVAL_PORT" -m lm_eval --model hf \
    --model_args "pretrained=$A4_EXPORT_FOLDER,trust_remote_code=$A4_EVAL_TRUST" \
    --tasks "$A4_EVAL_TASKS" --batch_size "$A4_EVAL_BATCH"
