#!/usr/bin/env bash
# Qwen3 weights of Megatron back to Hugging Face's form.
# The chart sets what megatron.sh and sharing.sh name; prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/sharing.sh
source "$here/sharing.sh"
# shellcheck source=launchers/megatron.sh
source "$here/megatron.sh"
trap 'step_end $?' EXIT

step_clone
step_sync cloned
convert_weights to-hf
