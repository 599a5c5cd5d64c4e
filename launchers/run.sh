#!/usr/bin/env bash
# Entry of every pod: prepares it, runs the recipe, and ends with the recipe's exit code.
# The chart sets A4_RECIPE, JOB_COMPLETION_INDEX, NNODES, SLEEP_INFINITY, and what prepare.sh and the recipe name.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${A4_ROOT:-}"

echo "pod $(hostname 2>/dev/null || echo "${HOSTNAME:-}"), index $JOB_COMPLETION_INDEX of $NNODES, recipe $A4_RECIPE"
rm -f "$root/tmp/a4-step" "$root/tmp/a4-exit-code" "$root/tmp/a4-keep"

# A first process gets no signal it has no trap for: without this, stopping a job would take the whole grace period.
child=0
trap 'kill -TERM "$child" 2>/dev/null || true; exit 143' TERM

code=0
bash "$here/prepare.sh" &
child=$!
wait "$child" || code=$?

if [[ "$code" -eq 0 ]]; then
    (
        # What the pod's environment has become: the gIB variables and the library path. gIB's script is not ours and
        # may use what is not set.
        set +eu
        # shellcheck source=/dev/null
        source "$root/tmp/export_init_env.sh"
        exec bash "$here/$A4_RECIPE.sh" "$@"
    ) &
    child=$!
    wait "$child" || code=$?
fi

# A recipe with nothing to do asks for its pods to be kept.
if [[ "${SLEEP_INFINITY:-false}" == "true" || -e "$root/tmp/a4-keep" ]]; then
    echo "$A4_RECIPE ended with exit code $code; the pod is kept until the job is stopped"
    sleep infinity &
    child=$!
    wait "$child"
fi
echo "$A4_RECIPE ended with exit code $code"
exit "$code"
