#!/usr/bin/env bash
# Hugging Face weights to Megatron's form with swift export, on one GPU.
# The chart sets what swift.sh names, A4_SWIFT_SOURCE, A4_SWIFT_DTYPE, A4_SWIFT_TEST; prepare.sh has run before.
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

step export
need swift "use an image with ms-swift"
arguments=(
    --model "$A4_SWIFT_SOURCE"
    --to_mcore true
    --torch_dtype "$A4_SWIFT_DTYPE"
    --output_dir "$A4_SWIFT_LOAD"
    --test_convert_precision "$A4_SWIFT_TEST"
)
further_arguments
CUDA_VISIBLE_DEVICES=0 swift export "${arguments[@]}"
