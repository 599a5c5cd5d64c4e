# Made-up readings of the GPUs of a practice pod, as `nvidia-smi --query-gpu=... --format=csv` prints them: calm while
# nothing runs, busy while it trains; in a test, and in a hang all but the stuck one, at full use and little power.
# The one that is sick, if any, has uncorrected errors.
function any(low, high) { return low + rand() * (high - low) }
function value(name, gpu) {
    quiet = doing == "idle" || (doing == "data" && gpu == stuck)
    waits = (doing == "nccl" || doing == "data" || doing == "test") && !quiet
    if (name == "index") return gpu
    if (name == "name") return "NVIDIA B200"
    if (name ~ /bus_id/) return sprintf("00000000:%02X:00.0", 15 + 16 * gpu)
    if (name == "utilization.gpu") return (quiet ? 0 : waits ? 100 : int(any(93, 100))) " %"
    if (name == "memory.used") return (doing == "idle" ? 4 : doing == "test" ? 33700 : 141200 + 37 * gpu) " MiB"
    if (name == "memory.total") return "183359 MiB"
    if (name == "temperature.gpu") return int(quiet ? any(31, 34) : waits ? any(38, 42) : any(58, 67)) + gpu % 3
    if (name == "power.draw") return sprintf("%.2f W", quiet ? any(140, 150) : waits ? any(285, 310) : any(820, 940))
    if (name == "power.limit") return "1000.00 W"
    if (name == "clocks.sm") return (quiet ? 120 : waits ? 1965 : int(any(1785, 1890) / 15) * 15) " MHz"
    if (name == "clocks.max.sm") return "1965 MHz"
    if (name ~ /^ecc.*uncorrected/) return sick != "" && gpu == sick ? 2 : 0
    if (name ~ /^ecc/) return sick != "" && gpu == sick ? 17 : 0
    if (name ~ /reasons.active/) return quiet ? "0x0000000000000001" : "0x0000000000000000"
    return "[N/A]"
}
function title(name) {
    if (name ~ /^utilization/) return name " [%]"
    if (name ~ /^memory/) return name " [MiB]"
    if (name ~ /^power/) return name " [W]"
    if (name == "clocks.sm") return "clocks.current.sm [MHz]"
    return name ~ /^clocks.max/ ? name " [MHz]" : name
}
BEGIN {
    srand()
    srand(int(rand() * 1000000) + seed * 7919)
    sub(/^.*--query-gpu=/, "", fields)
    sub(/ .*$/, "", fields)
    count = split(fields, names, ",")
    for (at = 1; at <= count; at++) printf "%s%s", title(names[at]), at < count ? ", " : "\n"
    for (gpu = 0; gpu < gpus; gpu++)
        for (at = 1; at <= count; at++) printf "%s%s", value(names[at], gpu), at < count ? ", " : "\n"
}
