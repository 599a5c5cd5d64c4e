#!/usr/bin/env bash
# A person's own script, on every pod, with the arguments that run.sh was given.
# The chart sets A4_CONFIG_PATH and lays own-script-main beside this file, with own-script-before and own-script-config
# when they were given; prepare.sh has run before.
set -euo pipefail

here="${A4_OWN_FOLDER:-$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)}"
root="${A4_ROOT:-}"
# shellcheck source=launchers/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
trap 'step_end $?' EXIT

if [[ -e "$here/own-script-config" ]]; then
    step config
    mkdir -p "$(dirname "$root$A4_CONFIG_PATH")"
    install -m 644 "$here/own-script-config" "$root$A4_CONFIG_PATH"
    echo "configuration in $A4_CONFIG_PATH"
fi

if [[ -e "$here/own-script-before" ]]; then
    step before
    bash "$here/own-script-before"
fi

step script
echo "arguments: $*"
# A script that names its interpreter is run by that.
mark=""
IFS= read -r -n 2 mark <"$here/own-script-main" || true
if [[ "$mark" == "#!" && -x "$here/own-script-main" ]]; then
    "$here/own-script-main" "$@"
else
    bash "$here/own-script-main" "$@"
fi
