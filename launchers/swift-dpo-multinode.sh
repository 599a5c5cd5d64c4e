#!/usr/bin/env bash
# DPO with megatron rlhf on several nodes: the same command on each, index 0 is the master.
# The chart sets what swift.sh names and swift-dpo-arguments.sh; prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/sharing.sh
source "$here/sharing.sh"
# shellcheck source=launchers/swift.sh
source "$here/swift.sh"
# shellcheck source=launchers/swift-dpo-arguments.sh
source "$here/swift-dpo-arguments.sh"
trap 'step_end $?' EXIT

step_megatron
enter_workspace
export_ranks

begin_training
echo "node $NODE_RANK of $NNODES, $NPROC_PER_NODE processes, master $MASTER_ADDR:$MASTER_PORT"
dpo_arguments
train rlhf
