#!/usr/bin/env bash
# Qwen3-30B-A3B pretraining in the image of Pai-Megatron-Patch: clone, download, convert, train.
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

keep_when_all_is_skipped SKIP_CLONE_REPO SKIP_DOWNLOAD_DATA SKIP_CHECKPOINT_CONVERSION SKIP_TRAINING
step_clone
step_download
step_sync downloaded
step_convert
step_train
