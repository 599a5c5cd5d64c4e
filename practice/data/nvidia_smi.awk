# Made-up readings of the GPUs of a practice pod: calm while nothing runs, busy while it trains; in a test, and in a hang
# all but the `stuck` one that has nothing to do, at full use and little power. The one that is sick, if any, has uncorrected errors.
# They are printed as by `nvidia-smi --query-gpu=... --format=csv`, with mode=list as by `nvidia-smi -L`, and with
# mode=table as by `nvidia-smi` alone, whose processes have `program` as their name, from process number `first` on.
function any(low, high) { return low + rand() * (high - low) }
function value(name, gpu) {
    quiet = doing == "idle" || (stuck != "" && gpu == stuck)
    waits = doing != "train" && !quiet
    gone = doing == "dead" && quiet
    if (name == "index") return gpu
    if (name == "name" || name == "gpu_name") return "NVIDIA B200"
    if (name == "uuid" || name == "gpu_uuid") return names_of[gpu + 1]
    if (name == "count") return gpus
    if (name == "driver_version") return driver
    if (name ~ /bus_id/) return sprintf("00000000:%02X:00.0", 15 + 16 * gpu)
    if (name == "utilization.gpu") return (quiet ? 0 : waits ? 100 : int(any(93, 100))) " %"
    if (name == "memory.used") return (doing == "idle" || gone ? 4 : doing == "test" ? 33700 : 141200 + 37 * gpu) " MiB"
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
function number(name, gpu) { return value(name, gpu) + 0 }
function line(character, count, text) {
    text = sprintf("%" count "s", "")
    gsub(/ /, character, text)
    return text
}
function table(gpu, cells) {
    print "+" line("-", 89) "+"
    printf "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", driver, driver, "13.0"
    cells = "+" line("-", 41) "+" line("-", 24) "+" line("-", 22) "+"
    print cells
    print "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |"
    print "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |"
    print "|                                         |                        |               MIG M. |"
    print "|" line("=", 41) "+" line("=", 24) "+" line("=", 22) "|"
    for (gpu = 0; gpu < gpus; gpu++) {
        printf "| %3d  %-30s On  |   %s Off | %20d |\n", gpu, value("name", gpu), value("pci.bus_id", gpu),
            value("ecc.errors.uncorrected.volatile.total", gpu)
        printf "| N/A %4dC    P0 %14dW / %4dW | %7dMiB / %6dMiB | %6d%%      Default |\n", value("temperature.gpu", gpu),
            number("power.draw", gpu), number("power.limit", gpu), number("memory.used", gpu),
            number("memory.total", gpu), number("utilization.gpu", gpu)
        print "|                                         |                        |             Disabled |"
        print cells
    }
    print ""
    print "+" line("-", 89) "+"
    print "| Processes:                                                                              |"
    print "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |"
    print "|        ID   ID                                                               Usage      |"
    print "|" line("=", 89) "|"
    if (program == "") print "|  No running processes found                                                             |"
    else for (gpu = 0; gpu < gpus; gpu++) if (doing != "dead" || gpu != stuck)
        printf "|%5d   N/A  N/A %15d      C   %-36s %7dMiB |\n", gpu, first + gpu, substr(program, 1, 36),
            number("memory.used", gpu) - 4
    print "+" line("-", 89) "+"
}
BEGIN {
    driver = "580.95.05"
    srand()
    srand(int(rand() * 1000000) + seed * 7919)
    split(uuids, names_of, ",")
    if (mode == "table") {
        command = "date"
        command | getline moment
        print moment
        table()
        exit
    }
    if (mode == "list") {
        for (gpu = 0; gpu < gpus; gpu++) printf "GPU %d: %s (UUID: %s)\n", gpu, value("name", gpu), value("uuid", gpu)
        exit
    }
    sub(/^.*--query-gpu=/, "", fields)
    sub(/ .*$/, "", fields)
    count = split(fields, names, ",")
    for (at = 1; at <= count; at++) printf "%s%s", title(names[at]), at < count ? ", " : "\n"
    for (gpu = 0; gpu < gpus; gpu++)
        for (at = 1; at <= count; at++) printf "%s%s", value(names[at], gpu), at < count ? ", " : "\n"
}
