# Prints the table of df: options -h, -k, -P, -T, and paths.
function size(kib, units, at) {
    if (!human) return sprintf("%.0f", kib)
    units = "KMGTP"
    for (at = 1; kib >= 1024 && at < 5; at++) kib /= 1024
    return (kib < 10 && kib != int(kib) ? sprintf("%.1f", kib) : sprintf("%.0f", kib)) substr(units, at, 1)
}
function row(at) {
    used = total[at] ? int(100 * taken[at] / total[at] + 0.999) : 0
    printf "%-22s %s%10s %10s %10s %4s%% %s\n", name[at], typed ? sprintf("%-8s ", kind[at]) : "", size(total[at]),
        size(taken[at]), size(total[at] - taken[at]), used, where[at]
}
BEGIN {
    while ((getline text < ARGV[1]) > 0) {
        split(text, part, "\t")
        count++
        name[count] = part[1]; kind[count] = part[2]
        total[count] = part[3]; taken[count] = part[4]; where[count] = part[5]
    }
    for (at = 2; at < ARGC; at++) {
        if (ARGV[at] ~ /^-/) {
            if (ARGV[at] ~ /h/) human = 1
            if (ARGV[at] ~ /T/) typed = 1
            if (ARGV[at] ~ /P/) portable = 1
        } else path[++paths] = ARGV[at]
    }
    printf "%-22s %s%10s %10s %10s %5s %s\n", "Filesystem", typed ? "Type     " : "",
        human ? "Size" : portable ? "1024-blocks" : "1K-blocks", "Used", human && !portable ? "Avail" : "Available",
        portable ? "Capacity" : "Use%", "Mounted on"
    for (at = 1; at <= count && !paths; at++) row(at)
    for (asked = 1; asked <= paths; asked++) {
        wanted = path[asked]
        if (wanted !~ /^\//) wanted = here "/" wanted
        best = 1
        for (at = 2; at <= count; at++)
            if (index(wanted "/", where[at] "/") == 1 && length(where[at]) > length(where[best])) best = at
        row(best)
    }
}
