# shellcheck shell=bash
# What pods of a job share through the workspace: code, and flags by which index 0 lets the others go on.
# Sourced by recipes that need a workspace, after steps.sh.
# The chart sets JOB_COMPLETION_INDEX, NNODES, JOB_ID (the release), JOB_IDENTIFIER (the release and what differs for
# every run and every restart), PAI_WORKSPACE_ROOT.

root="${A4_ROOT:-}"
share="$root$PAI_WORKSPACE_ROOT"
flags="$share/sync_flags_$JOB_IDENTIFIER"

is_first() { [[ "$JOB_COMPLETION_INDEX" -eq 0 ]]; }

# Flags of earlier runs of this release that did not come to their end. Its identifier ends with a uid, which no release
# has in its name.
remove_old_flags() {
    local folder uid="????????-????-????-????-????????????"
    for folder in "$share/sync_flags_$JOB_ID"-$uid; do
        if [[ -d "$folder" && "$folder" != "$flags" ]]; then rm -rf "$folder"; fi
    done
}
if is_first; then remove_old_flags; fi

# The last pod that has done its part takes the flags away: nobody reads them any more. steps.sh calls it.
leave_share() {
    local ended
    if [[ ! -d "$flags" ]]; then return; fi
    touch "$flags/ended-$JOB_COMPLETION_INDEX" 2>/dev/null || return 0
    ended=("$flags"/ended-*)
    if ((${#ended[@]} == NNODES)); then rm -rf "$flags"; fi
}

# post NAME [WORD]: the word is there at once and whole, or not at all.
post() {
    mkdir -p "$flags"
    echo "${2:-done}" >"$flags/$1.part"
    mv "$flags/$1.part" "$flags/$1"
}

# read_post NAME: the word, when index 0 has posted it.
read_post() {
    until [[ -e "$flags/$1" ]]; do sleep "${A4_POLL_SECONDS:-5}"; done
    cat "$flags/$1"
}

# Index 0 says that everything up to here is done; the others wait for that.
step_sync() {
    step sync
    if is_first; then
        post "$1"
    else
        echo "waiting for index 0"
        read_post "$1" >/dev/null
    fi
}

# A clone is whole or not there: it is made beside its place and moved.
clone() {
    local repository="$1" folder="$2"
    shift 2
    need git "use an image with git"
    rm -rf "$folder.part"
    mkdir -p "$(dirname "$folder")"
    git clone "$@" "$repository" "$folder.part"
    mv "$folder.part" "$folder"
}

# A folder that is not empty.
is_there() { [[ -n "$(ls -A "$1" 2>/dev/null)" ]]; }

# fetch FOLDER ADDRESS...: files that are whole stay, parts are completed.
fetch() {
    local folder="$1" address
    shift
    need wget "use an image with wget"
    mkdir -p "$folder"
    for address in "$@"; do
        wget -c -nv -P "$folder" "$address"
        ls -l "$folder/${address##*/}"
    done
}
