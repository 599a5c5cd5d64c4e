#!/usr/bin/env bash
# Fine-tuning with megatron sft.
# The chart sets what swift.sh names, A4_SWIFT_SYSTEM, A4_SWIFT_AUTHOR, A4_SWIFT_NAME; prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/sharing.sh
source "$here/sharing.sh"
# shellcheck source=launchers/swift.sh
source "$here/swift.sh"
trap 'step_end $?' EXIT

step_megatron
enter_workspace
export_ranks

begin_training
common_arguments
arguments+=(
    --system "$A4_SWIFT_SYSTEM"
    --model_author "$A4_SWIFT_AUTHOR"
    --model_name "$A4_SWIFT_NAME"
)
train sft
