# shellcheck shell=bash
# What pods of a job share through the workspace: code, and flags by which index 0 lets the others go on. What jobs share:
# one at a time makes what all of them use.
# Sourced by recipes that need a workspace, after steps.sh.
# The chart sets JOB_COMPLETION_INDEX, NNODES, JOB_ID, JOB_IDENTIFIER, PAI_WORKSPACE_ROOT, A4_DISCOVERY_SECONDS and what
# pods.sh names.

# shellcheck source=launchers/pods.sh
source "$(dirname "${BASH_SOURCE[0]}")/pods.sh"
# shellcheck source=launchers/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

# shellcheck disable=SC2034  # of those that source this
share="$root$PAI_WORKSPACE_ROOT"
flags="$(flags_of "$JOB_IDENTIFIER")"
poll="${A4_POLL_SECONDS:-5}"
locked=""

is_first() { [[ "$JOB_COMPLETION_INDEX" -eq 0 ]]; }

# Flags of earlier runs of this release that did not come to their end. Its identifier ends with a uid, which no release
# has in its name.
remove_old_flags() {
    local folder uid="????????-????-????-????-????????????"
    for folder in "$(flags_of "$JOB_ID")"-$uid; do
        if [[ -d "$folder" && "$folder" != "$flags" ]]; then rm -rf "$folder"; fi
    done
}

# What index 0 begins with, so that the others see that they share its storage.
if is_first; then
    remove_old_flags
    if ((NNODES > 1)); then mkdir -p "$flags" || true; fi
fi

# The last pod that has done its part takes the flags away: nobody reads them any more. steps.sh calls it.
leave_share() {
    local ended
    if [[ ! -d "$flags" ]]; then return; fi
    touch "$flags/ended-$JOB_COMPLETION_INDEX" 2>/dev/null || return 0
    ended=("$flags"/ended-*)
    if ((${#ended[@]} == NNODES)); then rm -rf "$flags"; fi
}

# A pod that fails says so to those that wait for it, and keeps nobody out. steps.sh calls it.
fail_share() {
    unlock
    if is_first && [[ -d "$flags" ]]; then post failed "$1" || true; fi
}

# Whether another pod was told to end. steps.sh asks.
told_elsewhere() { compgen -G "$flags/sigterm-*" >/dev/null; }

# post NAME [WORD]: the word is there at once and whole, or not at all.
post() {
    mkdir -p "$flags"
    echo "${2:-done}" >"$flags/$1.part"
    mv "$flags/$1.part" "$flags/$1"
}

# read_post NAME: the word, when index 0 has posted it; none comes from one that has ended, or that shares another folder.
read_post() {
    local deadline=$((SECONDS + A4_DISCOVERY_SECONDS)) ended
    until [[ -e "$flags/$1" ]]; do
        ended="$(cat "$code_file" "$flags/failed" 2>/dev/null || true)"
        if [[ -n "$ended" && ! -e "$flags/$1" ]]; then
            echo "index 0 has ended with exit code ${ended%%$'\n'*} before it came here" >&2
            exit 1
        fi
        if [[ ! -d "$flags" ]] && ((SECONDS >= deadline)); then
            echo "index 0 has written nothing into $PAI_WORKSPACE_ROOT within $A4_DISCOVERY_SECONDS s: is it the same storage in all pods?" >&2
            exit 1
        fi
        sleep "$poll"
    done
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

# lock PATH WHAT: returns when this job alone works at PATH. A holder that lives counts on; one whose count stands still
# for A4_DEAD_SECONDS (120) by the clock of who waits is dead. unlock gives it back.
lock() {
    local lock="$1.a4-lock" holder="" seen="" now since="$SECONDS" failed=0 dead
    mkdir -p "$(dirname "$lock")"
    until mkdir "$lock" 2>/dev/null; do
        if [[ ! -d "$lock" ]]; then
            # Given back just now, or the folder takes nothing: the second try says why.
            failed=$((failed + 1))
            if ((failed > 3)); then mkdir "$lock"; fi
            continue
        fi
        now="$(cat "$lock/holder" "$lock/count" 2>/dev/null || true)"
        if [[ "$now" != "$seen" ]]; then
            seen="$now" since="$SECONDS"
        elif ((SECONDS - since >= ${A4_DEAD_SECONDS:-120})); then
            echo "${holder:-another job} is dead: its lock of ${1#"$root"} is taken over"
            # Of several that see it, one moves the lock of the dead away; the others find that place taken.
            dead="$lock.dead-${seen//[^a-zA-Z0-9]/-}"
            mv -T "$lock" "$dead" 2>/dev/null || true
            continue
        fi
        if [[ -z "$holder" ]]; then
            holder="$(cat "$lock/holder" 2>/dev/null || true)"
            echo "waiting for ${holder:-another job}: $2"
        fi
        sleep "$poll"
    done
    locked="$1"
    echo "$(namespace_of_pod)/$JOB_ID" >"$lock/holder"
    count_on "$lock" &
    lock_counter=$!
    disown "$lock_counter" # bash would tell of its end
}

# Ends with the script that has begun it, however that ends.
count_on() {
    local number=0
    while kill -0 $$ 2>/dev/null && [[ -d "$1" ]]; do
        number=$((number + 1))
        echo "$JOB_IDENTIFIER $number" >"$1/count" 2>/dev/null || return
        sleep "$poll"
    done
}

unlock() {
    if [[ -z "$locked" ]]; then return; fi
    # By force, as it would run the trap of this script; nothing is waited for, as this may be that trap.
    kill -KILL "$lock_counter" 2>/dev/null || true
    rm -rf "$locked.a4-lock" "$locked.a4-lock.dead-"*
    locked=""
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

no_data=65 # the exit code of sysexits.h: trying again brings the same

# several_times COMMAND...: again after a failure that may pass, three times in all.
several_times() {
    local try code
    for ((try = 1; ; try++)); do
        code=0
        "$@" || code=$?
        if ((code == 0 || code == no_data || try == 3)) || is_ending; then return "$code"; fi
        echo "$1 failed with exit code $code: once more"
        sleep "$((try * ${A4_AGAIN_SECONDS:-15}))"
    done
}

# fetch FOLDER ADDRESS...: files that are whole stay, parts are completed; their sizes are the server's.
fetch() {
    local folder="$1" address
    shift
    need wget "use an image with wget"
    mkdir -p "$folder"
    for address in "$@"; do
        several_times fetch_one "$folder" "$address"
        ls -l "$folder/${address##*/}"
    done
}

fetch_one() {
    local folder="$1" address="$2" file="$1/${2##*/}" headers="$root/tmp/a4-headers" code=0 status size kind="" there
    wget -c -nv -P "$folder" -S -T 60 --tries=5 --retry-connrefused --retry-on-http-error=429,500,502,503,504 \
        "$address" 2>"$headers" || code=$?
    grep -v '^  ' "$headers" >&2 || true
    if ((code)); then return "$code"; fi
    # Of the last answer. Where the file is whole already it has the size alone, and a page that says so.
    status="$(last_header 's|^  HTTP/[0-9.]* *\([0-9]*\).*|\1|p')"
    size="$(last_header 's|^  Content-Range: *bytes .*/\([0-9]*\).*|\1|Ip')"
    if [[ "$status" != 416 ]]; then
        kind="$(last_header 's/^  Content-Type: *//Ip')"
        if [[ "$status" != 206 ]]; then size="$(last_header 's/^  Content-Length: *\([0-9]*\).*/\1/Ip')"; fi
    fi
    there="$(wc -c <"$file")"
    if [[ "$kind" == text/html* && "$address" != *.htm* ]] || is_page "$file"; then
        rm -f "$file"
        echo "$address answers with a web page, not with data: look at the address, and whether it asks for a login" >&2
        return "$no_data"
    fi
    if [[ -n "$size" && "$size" -ne "$there" ]]; then
        rm -f "$file"
        echo "$file has $there bytes, and $size on the server: it was deleted" >&2
        return 1
    fi
}

last_header() { sed -n "$1" "$root/tmp/a4-headers" | sed -n '$p'; }

is_page() {
    local head=""
    IFS= read -r -d '' -n 200 head <"$1" 2>/dev/null || true
    [[ "${head,,}" =~ ^[[:space:]]*\<(!doctype[[:space:]]html|html) ]]
}
