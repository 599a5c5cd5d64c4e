# The answer of NCCL RAS in JSON, printed as client_support.cc of NCCL 2.28.9 does it: `launches` operations in `period`
# seconds, at the moments `launched`, by rank `late` at `launched_late`; all at once at its begin without these. In a job
# that hangs all have launched `hung` for ever, `stuck` one fewer, and `missing` gives no answer; the ranks `members` have
# a communicator beside it, in which they have launched `within`, but `odd` as many fewer as it `lacks`. There are `nodes`
# of `gpus` ranks, `each` GPUs to a process, the first of them process number `first`.
function launched_by(moments, at,    times, count, number, done) {
    if ((count = split(moments, times, ",")) == 0) return launches
    for (number = 1; number <= count; number++) done += (times[number] <= at) - (times[number] - period > at)
    return done
}
function place_of(rank) {
    printf "          \"host\": \"10.0.0.%d\",\n", int(rank / gpus) + 1
    printf "          \"pid\": %d,\n", first + int(rank % gpus / each)
    printf "          \"cuda_dev\": %d,\n          \"nvml_dev\": %d,\n", rank % gpus, rank % gpus
}
function rank_of(number, rank, launched) {
    printf "        {\n          \"rank\": %d,\n", number
    place_of(rank)
    printf "          \"status\": {\n            \"init_state\": 0,\n            \"async_error\": 0,\n"
    printf "            \"finalize_called\": false,\n            \"destroy_flag\": false,\n"
    printf "            \"abort_flag\": false\n          },\n          \"collective_counts\": {\n"
    printf "            \"Broadcast\": 9,\n            \"Reduce\": 0,\n            \"AllGather\": 0,\n"
    printf "            \"ReduceScatter\": 0,\n            \"AllReduce\": %d\n          }\n        }", launched
}
function open_communicator(hash, second, size, absent) {
    printf "    {\n      \"hash\": \"%s\",\n", hash
    printf "      \"secondary_hash\": \"%s\",\n      \"size\": %d,\n      \"ranks_count\": %d,\n", second, size, \
        size - absent
    printf "      \"missing_ranks_count\": %d,\n      \"ranks\": [\n", absent
}
BEGIN {
    moment = now % 1000000
    turn = int(moment / period)
    done = hung == "" ? turn * launches + launched_by(launched, moment - turn * period) : hung
    done_late = turn * launches + launched_by(launched_late, moment - turn * period)
    printf "{\n  \"nccl_version\": \"2.28.9\",\n  \"cuda_runtime_version\": 13000,\n"
    printf "  \"cuda_driver_version\": 13000,\n  \"timestamp\": \"%s\",\n", stamp
    printf "  \"communicators_count\": %d,\n  \"communicators\": [\n", members == "" ? 1 : 2
    open_communicator("0xc454a3c31c8de38c", "0x5be4f2:0x8f3c1a", nodes * gpus, missing != "")
    for (number = 0; number < nodes * gpus; number++) {
        if (missing != "" && number == missing) continue
        if (printed++) printf ",\n"
        count = hung == "" && late != "" && number == late ? done_late : done
        if (stuck != "" && number == stuck) count--
        rank_of(number, number, count)
    }
    printf "\n      ],\n      \"missing_ranks\": [\n"
    if (missing != "") {
        printf "        {\n          \"rank\": %d,\n", missing
        place_of(missing)
        printf "          \"status\": {\n            \"unresponsive\": true,\n            \"considered_dead\": false\n"
        printf "          }\n        }"
    }
    printf "\n      ]\n    }"
    if (members != "") {
        printf ",\n"
        count = split(members, ranks, ",")
        open_communicator("0x5e31a8b2c7f40d19", "0x2a61d0:0x77b1e4", count, 0)
        for (at = 1; at <= count; at++) {
            rank_of(at - 1, ranks[at], within - (ranks[at] == odd ? lacks : 0))
            if (at < count) printf ",\n"
        }
        printf "\n      ],\n      \"missing_ranks\": [\n\n      ]\n    }"
    }
    printf "\n  ],\n"
    printf "  \"ras\": {\n    \"collection_time_sec\": 0.001,\n    \"timeouts_count\": 0\n  }\n}\n"
}
