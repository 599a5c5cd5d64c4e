#!/usr/bin/env bash
# Entry of a pod whose log is kept: run.sh, and what it prints in a folder that is mounted, such as a bucket's.
# Below A4_LOG_FOLDER, in a folder for each run: pod-logs/coordinator.log of index 0, pod-logs/worker-N.log of the
# others; of index 0 also nccl-test-results.txt and connectivity-test.log, where it measured or reached others.
# The chart sets A4_LOG_FOLDER, JOB_IDENTIFIER (different for every run and every restart), JOB_COMPLETION_INDEX.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${A4_ROOT:-}"
folder="$root$A4_LOG_FOLDER/$JOB_IDENTIFIER"
printed="$root/tmp/a4-printed.log"
pipe="$root/tmp/a4-printing"

# keep NAME: what comes in, if anything does. A bucket takes a file whole or not at all, and a log never fails a job.
keep() {
    local text
    text="$(cat)"
    if [[ -n "$text" ]]; then echo "$text" >"$folder/$1" || echo "$folder/$1 could not be written" >&2; fi
}

store() {
    local name="worker-$JOB_COMPLETION_INDEX"
    if [[ "$JOB_COMPLETION_INDEX" -eq 0 ]]; then name=coordinator; fi
    if ! mkdir -p "$folder/pod-logs"; then return; fi
    cp "$printed" "$folder/pod-logs/$name.log" || echo "the log could not be kept in $A4_LOG_FOLDER" >&2
    if [[ "$JOB_COMPLETION_INDEX" -ne 0 ]]; then return; fi
    grep -E '^ *#|^ *[0-9]+ +[0-9]+ +[a-z]' "$printed" | keep nccl-test-results.txt || true
    sed -n '/^step [0-9]* connectivity: run/,/^step [0-9]* connectivity: \(done\|failed\)/p' "$printed" |
        keep connectivity-test.log
}

rm -f "$pipe"
mkfifo "$pipe"
tee "$printed" <"$pipe" &
teller=$!
bash "$here/run.sh" "$@" >"$pipe" 2>&1 &
child=$!
trap 'kill -TERM "$child" 2>/dev/null || true' TERM
# From time to time too: a node may be lost, and pods that are kept do not end.
(
    trap 'kill "$pause" 2>/dev/null || true; exit' TERM
    while true; do
        sleep "${A4_LOG_SECONDS:-300}" &
        pause=$!
        wait "$pause"
        store
    done
) >/dev/null 2>&1 &
keeper=$!

# A signal ends the wait, not what is waited for.
code=0
wait "$child" || code=$?
while kill -0 "$child" 2>/dev/null; do
    code=0
    wait "$child" || code=$?
done
kill "$keeper" 2>/dev/null || true
# What it left running may hold the pipe open for ever.
for ((try = 0; try < 50; try++)); do
    if ! kill -0 "$teller" 2>/dev/null; then break; fi
    sleep 0.1
done
store
exit "$code"
