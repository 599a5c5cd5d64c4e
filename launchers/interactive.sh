#!/usr/bin/env bash
# Interactive pods: nothing runs but sshd, and run.sh keeps the pods.
# The chart sets JOB_COMPLETION_INDEX; prepare.sh has run before and left the MPI host file on index 0.
set -euo pipefail

if [[ "${SLEEP_INFINITY:-false}" == "true" ]]; then touch "${A4_ROOT:-}/tmp/a4-keep"; fi
if [[ "$JOB_COMPLETION_INDEX" -eq 0 ]]; then
    echo "ready: open a shell in this pod; mpirun takes --hostfile ${A4_ROOT:-}/etc/job-worker-services.txt"
else
    echo "ready: open a shell in this pod, or reach it from index 0 through ssh"
fi
