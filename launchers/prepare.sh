#!/usr/bin/env bash
# First stage in every pod: libraries and environment, sshd on port 2222; index 0 finds the other pods, says in which
# order they stand, and writes the MPI host file.
# The chart sets JOB_COMPLETION_INDEX, GPUS_PER_NODE, SSH_PUBLIC_KEY, A4_SSH, A4_PLACED_BY, A4_PLACED_HOW, what pods.sh
# names, with gIB also NCCL_PLUGIN_PATH and NCCL_INIT_SCRIPT, and mounts the release's keys at /a4/ssh.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${A4_ROOT:-}"
export PATH="$PATH:$root/usr/local/sbin:$root/usr/sbin:$root/sbin"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
# shellcheck source=launchers/pods.sh
source "$here/pods.sh"
trap 'step_end $?' EXIT

workers=()
for ((index = 0; index < NNODES; index++)); do
    workers+=("$(pod_name "$index")")
done

use_libraries() {
    if [[ -d "$root${NCCL_PLUGIN_PATH:-/nowhere}" ]]; then
        export LD_LIBRARY_PATH="$NCCL_PLUGIN_PATH${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
        ldconfig "$root$NCCL_PLUGIN_PATH" || echo "ldconfig did not take $NCCL_PLUGIN_PATH: LD_LIBRARY_PATH has it"
        install_lspci
    else
        echo "gIB is not installed: NCCL uses the network it finds"
    fi
    ldconfig -p | grep libcuda || echo "ldconfig knows no libcuda"
}

# The scripts of gIB look at the machine with lspci. Without it, or without a way to a package archive, they go on.
install_lspci() {
    if command -v lspci >/dev/null || ! command -v apt-get >/dev/null; then return; fi
    echo "no lspci in this image: pciutils is installed"
    if ! { timeout 60 apt-get update -qq && timeout 60 apt-get install -qq -y pciutils; } >/dev/null 2>&1; then
        echo "pciutils could not be installed: gIB does without"
    fi
}

# Plain images of NVIDIA have no sshd.
install_sshd() {
    if ! command -v apt-get >/dev/null; then return; fi
    echo "no sshd in this image: openssh-server is installed"
    if ! {
        timeout 60 apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install -qq -y openssh-server
    } >/dev/null 2>&1; then
        echo "openssh-server could not be installed: no shell by ssh and no editor reaches this pod"
    fi
}

torch_version() {
    python3 -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null || echo 0
}

# Processes that mpirun starts through sshd do not inherit the container's environment: they source this file. It may
# hold secrets.
write_environment() {
    local file="$root/tmp/export_init_env.sh"
    local own="NCCL_SOCKET_IFNAME NCCL_TUNER_CONFIG_PATH NCCL_DEBUG${A4_NCCL_OWN:+ $A4_NCCL_OWN}"
    rm -f "$file"
    # Not by declare, which means a function's own variables where a function reads the file.
    (umask 077 && export -p | grep -vE '^declare -x (_|PWD|OLDPWD|SHLVL|TERM)(=|$)' | sed 's/^declare -x /export /' >"$file")
    if [[ -n "${NCCL_INIT_SCRIPT:-}" && -e "$root$NCCL_INIT_SCRIPT" ]]; then
        {
            echo "source '$root$NCCL_INIT_SCRIPT'"
            # What the chart and the person chose comes after what the script of gIB sets.
            export -p | grep -E "^declare -x (${own// /|})=" | sed 's/^declare -x /export /' || true
            # gIB's NCCL knows neither.
            echo "unset NCCL_NVLS_ENABLE TORCH_NCCL_USE_COMM_NONBLOCKING"
        } >>"$file"
    fi
    # From these versions on each rank would warn of the older name: at its start, and at each dump.
    if [[ -n "${TORCH_FR_BUFFER_SIZE:-}" ]] && printf '2.9\n%s\n' "$(torch_version)" | sort -CV; then
        echo "unset TORCH_NCCL_TRACE_BUFFER_SIZE" >>"$file"
    fi
    if [[ -n "${TORCH_FR_DUMP_TEMP_FILE:-}" ]] && printf '2.11\n%s\n' "$(torch_version)" | sort -CV; then
        echo "unset TORCH_NCCL_DEBUG_INFO_TEMP_FILE" >>"$file"
    fi
    echo "export A4_ENVIRONMENT=here" >>"$file"
}

# Shells, ssh and editors come into the pod beside the recipe: they get the same environment. sshd gives it to whatever
# it starts, but for values of several lines; bash reads the rest, and all of it where nobody gave anything.
share_environment() {
    local home="$root/root" file="$root/tmp/export_init_env.sh" entry profile=.profile name
    local read="if [ -n \"\${BASH_VERSION:-}\" ] && [ -z \"\${A4_ENVIRONMENT:-}\" ] && [ -r $file ]; then . $file; fi"
    rm -f "$home/.ssh/environment"
    (
        umask 077
        set +eu
        # shellcheck source=/dev/null
        source "$file" >/dev/null 2>&1
        env -0 | while IFS= read -r -d '' entry; do
            case "$entry" in
            *$'\n'* | _=* | PWD=* | OLDPWD=* | SHLVL=* | HOME=* | A4_ENVIRONMENT=*) ;;
            *) printf '%s\n' "$entry" ;;
            esac
        done >"$home/.ssh/environment"
    )
    for name in .bash_profile .bash_login; do
        if [[ -e "$home/$name" ]]; then profile="$name"; fi
    done
    for name in .bashrc "$profile"; do
        touch "$home/$name"
        if ! grep -qF "$read" "$home/$name"; then
            # Before all else: many a .bashrc ends early where nobody types.
            { echo "$read"; cat "$home/$name"; } >"$home/$name.part"
            mv "$home/$name.part" "$home/$name"
        fi
    done
}

look_at_gpus() {
    local found
    found="$(nvidia-smi -L | grep -c '^GPU ' || true)"
    echo "$found GPUs, $GPUS_PER_NODE asked for"
    if ((found < GPUS_PER_NODE)); then echo "some GPUs of this pod are missing: nvidia-smi on the node tells more"; fi
    nvidia-smi -pm 1 >/dev/null || echo "persistence mode stays as it is: the container may not change it"
}

install_keys() {
    local home="$root/root/.ssh"
    mkdir -p "$home" "$root/run/sshd" "$root/etc/ssh"
    chmod 700 "$home"
    install -m 600 "$root/a4/ssh/id_pods" "$home/id_pods"
    install -m 600 "$root/a4/ssh/host_key" "$root/etc/ssh/a4_host_key"
    need ssh-keygen "use an image with openssh-client"
    ssh-keygen -y -f "$home/id_pods" >"$home/id_pods.pub"
    cat "$home/id_pods.pub" >>"$home/authorized_keys"
    if [[ -n "${SSH_PUBLIC_KEY:-}" ]]; then echo "$SSH_PUBLIC_KEY" >>"$home/authorized_keys"; fi
    chmod 600 "$home/authorized_keys"
    # All pods of the release have one host key, known here under one name.
    echo "a4-pods $(ssh-keygen -y -f "$root/etc/ssh/a4_host_key")" >"$home/known_hosts_a4"
    cat >"$home/config" <<CONFIG
Host $HOSTNAME_PREFIX*
    Port $port
    User root
    IdentityFile $home/id_pods
    HostKeyAlias a4-pods
    UserKnownHostsFile $home/known_hosts_a4
    StrictHostKeyChecking yes
    LogLevel ERROR
CONFIG
    chmod 600 "$home/config"
}

start_sshd() {
    local sshd
    if ! command -v sshd >/dev/null; then
        echo "this image has no sshd; use an image with openssh-server" >&2
        exit 1
    fi
    sshd="$(command -v sshd)" # sshd runs itself again and must be called by its whole path
    # Images have an sshd_config of their own, or none, with ports and rules that are not ours.
    # mpirun looks for its own programs on the other pods: they get this pod's paths.
    cat >"$root/etc/ssh/a4_sshd_config" <<CONFIG
Port $port
HostKey $root/etc/ssh/a4_host_key
AuthorizedKeysFile $root/root/.ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile $root/run/sshd/a4.pid
MaxStartups 256
MaxSessions 256
PermitUserEnvironment yes
Subsystem sftp internal-sftp
SetEnv PATH=$PATH LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-/usr/lib}
CONFIG
    "$sshd" -f "$root/etc/ssh/a4_sshd_config"
    touch "$root/tmp/a4-sshd"
    echo "sshd listens on port $port"
}

discover() {
    local worker deadline=$((SECONDS + A4_DISCOVERY_SECONDS))
    for worker in "${workers[@]}"; do
        until on_pod "$worker" "touch $found_file"; do
            if ((SECONDS >= deadline)); then
                echo "$worker has not answered within $A4_DISCOVERY_SECONDS s: look why its pod is not there" >&2
                exit 1
            fi
            sleep "$pause"
        done
        echo "pong from $worker"
    done
}

# Pods do not see where their machines are. Kueue does, and gives neighbouring indices to neighbouring machines.
say_order() {
    if [[ -n "$A4_PLACED_BY" && -n "$A4_PLACED_HOW" ]]; then
        echo "order: by index, as Kueue has placed the pods by topology (${A4_PLACED_HOW/#true/unconstrained})"
    else
        echo "order: not known, as Kueue has not placed these pods by topology; they stand by index"
    fi
}

write_host_file() {
    printf "%s slots=$GPUS_PER_NODE\n" "${workers[@]}" >"$root/etc/job-worker-services.txt"
    cat "$root/etc/job-worker-services.txt"
}

step libraries
use_libraries
write_environment

if command -v nvidia-smi >/dev/null; then
    step gpus
    look_at_gpus
else
    step_skip gpus "no nvidia-smi in this image"
fi

if ! command -v sshd >/dev/null; then
    install_sshd
    if [[ "${A4_SSH:-required}" == "optional" ]]; then
        # One that was installed is for people alone: it may have failed in another pod, for which no pod must wait.
        if command -v sshd >/dev/null && command -v ssh-keygen >/dev/null; then
            step ssh
            install_keys
            share_environment
            start_sshd
            rm -f "$root/tmp/a4-sshd"
        else
            step_skip ssh "no sshd in this image, and the recipe needs none"
        fi
        for name in discovery order hostfile; do
            step_skip "$name" "no sshd in this image, and the recipe needs none"
        done
        exit
    fi
fi

step ssh
need ssh "use an image with openssh-client"
install_keys
share_environment
start_sshd

step discovery
if [[ "$JOB_COMPLETION_INDEX" -eq 0 ]]; then
    discover
    step order
    say_order
    step hostfile
    write_host_file
else
    wait_to_be_found
    step_skip order "index 0 does this"
    step_skip hostfile "index 0 does this"
fi
