# shellcheck shell=bash
# The arguments of megatron rlhf for DPO, beside those of every training. Sourced by both DPO recipes after swift.sh.
# The chart sets A4_SWIFT_SPLIT, A4_SWIFT_PACKING, A4_SWIFT_EP, A4_SWIFT_ETP, A4_SWIFT_MOE_FUSION, A4_SWIFT_AUX_LOSS,
# A4_SWIFT_EVAL_INTERVAL, A4_SWIFT_OFFLOAD, A4_SWIFT_OFFLOAD_SHARE, A4_SWIFT_ATTENTION, A4_SWIFT_BETA, A4_SWIFT_LOSS.

dpo_arguments() {
    local eval_interval=--eval_interval reference=--ref_load
    if at_least 4.0; then eval_interval=--eval_steps reference=--ref_model; fi
    common_arguments
    # What the policy is compared with stays the first weights when it goes on from a checkpoint.
    if goes_on; then arguments+=("$reference" "$A4_SWIFT_LOAD"); fi
    arguments=(
        --rlhf_type dpo
        "${arguments[@]}"
        --split_dataset_ratio "$A4_SWIFT_SPLIT"
        --expert_tensor_parallel_size "$A4_SWIFT_ETP"
        --expert_model_parallel_size "$A4_SWIFT_EP"
        --moe_permute_fusion "$A4_SWIFT_MOE_FUSION"
        --moe_grouped_gemm "$A4_SWIFT_MOE_FUSION"
        --moe_shared_expert_overlap "$A4_SWIFT_MOE_FUSION"
        --moe_aux_loss_coeff "$A4_SWIFT_AUX_LOSS"
        "$eval_interval" "$A4_SWIFT_EVAL_INTERVAL"
        --attention_backend "$A4_SWIFT_ATTENTION"
        --beta "$A4_SWIFT_BETA"
        --loss_type "$A4_SWIFT_LOSS"
    )
    if [[ "$A4_SWIFT_OFFLOAD" == "true" ]]; then
        arguments+=(
            --optimizer_cpu_offload true
            --use_precision_aware_optimizer true
            --optimizer_offload_fraction "$A4_SWIFT_OFFLOAD_SHARE"
        )
    fi
    if [[ "$A4_SWIFT_PACKING" == "true" ]]; then
        if at_least 3.8; then
            arguments+=(--packing true)
        else
            echo "SWIFT $A4_SWIFT_VERSION cannot pack for DPO: packing is left out"
        fi
    fi
}
