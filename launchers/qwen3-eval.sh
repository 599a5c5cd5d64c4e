#!/usr/bin/env bash
# Evaluation of weights in Hugging Face's form with lm-eval, on one node.
# The chart sets what sharing.sh and megatron.sh's first steps name, SKIP_DOWNLOAD_DATA, A4_EXPORT_FOLDER,
# A4_EVAL_TASKS, A4_EVAL_BATCH, A4_EVAL_PORT, A4_EVAL_TRUST, A4_EVAL_FILES, A4_EVAL_HARNESS; prepare.sh has run before.
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

step_clone

if skips SKIP_DOWNLOAD_DATA download; then
    mkdir -p "$evaluation"
else
    step download
    read -ra files <<<"$A4_EVAL_FILES"
    fetch "$evaluation" "${files[@]}"
    for file in "${files[@]}"; do tar -xzf "$evaluation/${file##*/}" -C "$evaluation"; done
fi

step harness
# The benchmarks are named relative to where they were unpacked.
place="$evaluation"
if [[ -d "$root$A4_EVAL_HARNESS" ]]; then
    echo "lm-eval of $A4_EVAL_HARNESS"
    export PYTHONPATH="$root$A4_EVAL_HARNESS${PYTHONPATH:+:$PYTHONPATH}"
else
    echo "$A4_EVAL_HARNESS is not there: lm-eval comes from the package index"
    pip install lm_eval
fi

step evaluate
need accelerate "use an image with Hugging Face's accelerate"
cd "$place"
accelerate launch --main_process_port "$A4_EVAL_PORT" -m lm_eval --model hf \
    --model_args "pretrained=$A4_EXPORT_FOLDER,trust_remote_code=$A4_EVAL_TRUST" \
    --tasks "$A4_EVAL_TASKS" --batch_size "$A4_EVAL_BATCH"
