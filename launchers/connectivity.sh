#!/usr/bin/env bash
# MPI connectivity: one process per GPU on every pod, each names its node.
# The chart sets what mpi.sh names; prepare.sh has run before.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/mpi.sh
source "$here/mpi.sh"

only_index_0
step_connectivity
