# The answer of NCCL RAS in JSON, printed as client_support.cc of NCCL 2.28.9 does it: `launches` operations a step of
# `period` seconds, all at once at its begin, by rank `late` after `share` of it; or `stuck` has launched one fewer for
# ever. There are `nodes` of `gpus` ranks, `each` GPUs to a process, the first of them process number `first`.
function rank_of(number, launched) {
    printf "        {\n          \"rank\": %d,\n          \"host\": \"10.0.0.%d\",\n", number, int(number / gpus) + 1
    printf "          \"pid\": %d,\n", first + int(number % gpus / each)
    printf "          \"cuda_dev\": %d,\n          \"nvml_dev\": %d,\n", number % gpus, number % gpus
    printf "          \"status\": {\n            \"init_state\": 0,\n            \"async_error\": 0,\n"
    printf "            \"finalize_called\": false,\n            \"destroy_flag\": false,\n"
    printf "            \"abort_flag\": false\n          },\n          \"collective_counts\": {\n"
    printf "            \"Broadcast\": 9,\n            \"Reduce\": 0,\n            \"AllGather\": 0,\n"
    printf "            \"ReduceScatter\": 0,\n            \"AllReduce\": %d\n          }\n        }", launched
}
BEGIN {
    moment = now % 1000000
    step = int(moment / period)
    done = stuck == "" ? (step + 1) * launches : 4117
    is_late = stuck == "" && late != "" && moment - step * period < share * period
    printf "{\n  \"nccl_version\": \"2.28.9\",\n  \"cuda_runtime_version\": 13000,\n"
    printf "  \"cuda_driver_version\": 13000,\n  \"timestamp\": \"%s\",\n", stamp
    printf "  \"communicators_count\": 1,\n  \"communicators\": [\n    {\n      \"hash\": \"0xc454a3c31c8de38c\",\n"
    printf "      \"secondary_hash\": \"0x5be4f2:0x8f3c1a\",\n      \"size\": %d,\n      \"ranks_count\": %d,\n", \
        nodes * gpus, nodes * gpus
    printf "      \"missing_ranks_count\": 0,\n      \"ranks\": [\n"
    for (number = 0; number < nodes * gpus; number++) {
        if (number) printf ",\n"
        launched = done
        if (is_late && number == late) launched -= launches
        if (stuck != "" && number == stuck) launched--
        rank_of(number, launched)
    }
    printf "\n      ],\n      \"missing_ranks\": [\n\n      ]\n    }\n  ],\n"
    printf "  \"ras\": {\n    \"collection_time_sec\": 0.001,\n    \"timeouts_count\": 0\n  }\n}\n"
}
