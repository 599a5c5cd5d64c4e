#!/usr/bin/env bash
# First stage in every pod: libraries and environment, sshd on port 2222; on index 0 also discovery of the other pods,
# their order in the building, and the MPI host file.
# The chart sets JOB_COMPLETION_INDEX, NNODES, GPUS_PER_NODE, HOSTNAME_PREFIX, DOMAIN_NAME, SSH_PUBLIC_KEY,
# A4_DISCOVERY_SECONDS, A4_SSH, with gIB also NCCL_PLUGIN_PATH and NCCL_INIT_SCRIPT, and mounts the release's keys at /a4/ssh.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${A4_ROOT:-}"
pause="${A4_RETRY_SECONDS:-2}"
port="${A4_SSH_PORT:-2222}"
export PATH="$PATH:$root/usr/local/sbin:$root/usr/sbin:$root/sbin"
# shellcheck source=launchers/steps.sh
source "$here/steps.sh"
trap 'step_end $?' EXIT

workers=()
for ((index = 0; index < NNODES; index++)); do
    workers+=("${HOSTNAME_PREFIX}0-$index.$DOMAIN_NAME")
done

on_worker() {
    ssh -q -F "$root/root/.ssh/config" -o BatchMode=yes -o ConnectTimeout=5 -p "$port" "$@"
}

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

# Processes that mpirun starts through sshd do not inherit the container's environment: they source this file.
write_environment() {
    local file="$root/tmp/export_init_env.sh"
    local own="NCCL_SOCKET_IFNAME NCCL_TUNER_CONFIG_PATH NCCL_DEBUG${A4_NCCL_OWN:+ $A4_NCCL_OWN}"
    (umask 077 && export -p | grep -vE '^declare -x (_|PWD|OLDPWD|SHLVL)(=|$)' >"$file")
    if [[ -n "${NCCL_INIT_SCRIPT:-}" && -e "$root$NCCL_INIT_SCRIPT" ]]; then
        {
            echo "source '$root$NCCL_INIT_SCRIPT'"
            # What the chart and the person chose comes after what the script of gIB sets.
            export -p | grep -E "^declare -x (${own// /|})=" || true
            # gIB's NCCL knows neither.
            echo "unset NCCL_NVLS_ENABLE TORCH_NCCL_USE_COMM_NONBLOCKING"
        } >>"$file"
    fi
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
Subsystem sftp internal-sftp
SetEnv PATH=$PATH LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-/usr/lib}
CONFIG
    "$sshd" -f "$root/etc/ssh/a4_sshd_config"
    echo "sshd listens on port $port"
}

discover() {
    local worker deadline=$((SECONDS + A4_DISCOVERY_SECONDS))
    need ssh "use an image with openssh-client"
    for worker in "${workers[@]}"; do
        until on_worker "$worker" hostname >/dev/null; do
            if ((SECONDS >= deadline)); then
                echo "$worker has not answered within $A4_DISCOVERY_SECONDS s" >&2
                exit 1
            fi
            sleep "$pause"
        done
        echo "pong from $worker"
    done
}

# LOCATION WORKER lines, near machines side by side. A machine that does not tell its place comes after the others.
sort_by_place() {
    local worker place try code places="$root/tmp/${HOSTNAME_PREFIX}worker-locations.txt"
    local url=http://metadata.google.internal/computeMetadata/v1/instance/attributes/physical_host
    : >"$places"
    for worker in "${workers[@]}"; do
        place=""
        for ((try = 0; try < ${A4_PLACE_TRIES:-5}; try++)); do
            code=0
            place="$(on_worker "$worker" "curl -sf -m 5 -H 'Metadata-Flavor: Google' $url")" || code=$?
            if [[ "$code" -eq 0 ]]; then break; fi
            place=""
            # An answer that there is no such thing (22), or no curl (127), will be the same the next time.
            if [[ "$code" -eq 22 || "$code" -eq 127 ]]; then break; fi
            sleep "$pause"
        done
        if [[ -z "$place" ]]; then echo "$worker does not tell where its machine is"; fi
        echo "${place:-~unknown} $worker" >>"$places"
    done
    LC_ALL=C sort -s -k1,1 "$places" >"$root/tmp/job-worker-rank-order.txt"
    cut -d' ' -f2 "$root/tmp/job-worker-rank-order.txt" >"$root/tmp/job-worker-hostnames-order.txt"
    cat "$root/tmp/job-worker-rank-order.txt"
}

write_host_file() {
    sed "s/$/ slots=$GPUS_PER_NODE/" "$root/tmp/job-worker-hostnames-order.txt" >"$root/etc/job-worker-services.txt"
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

if ! command -v sshd >/dev/null && [[ "${A4_SSH:-required}" == "optional" ]]; then
    for name in ssh discovery order hostfile; do
        step_skip "$name" "no sshd in this image, and the recipe needs none"
    done
    exit
fi

step ssh
install_keys
start_sshd

if [[ "$JOB_COMPLETION_INDEX" -eq 0 ]]; then
    step discovery
    discover
    step order
    sort_by_place
    step hostfile
    write_host_file
else
    step_skip discovery "index 0 does this"
    step_skip order "index 0 does this"
    step_skip hostfile "index 0 does this"
fi
