"""Which tests prove which capability of launching."""

from __future__ import annotations

from tests.chart.plans import CATALOGUE
from tests.chart.proofs import unknown
from tests.launchers import documents

PROOF: dict[str, tuple[str, ...]] = {
    "R02": ("profiles/a_recipe_takes_what_it_has", "profiles/a_profile_is_made_changed_and_deleted"),
    "R03": ("storage/a_bucket_is_a_name_alone",),
    "R06": (
        "golden/manifests_are_the_golden_ones",
        "dry_run/the_objects_are_the_golden_ones",
        "dry_run/what_is_shown_is_what_is_installed",
    ),
    "R07": (
        "render/other_counts_are_refused",
        "practised/other_numbers_are_refused_with_a_sentence",
        "practised/sixteen_gpus_are_two_pods_of_eight",
    ),
    "R08": ("render/gpus_become_pods_of_eight",),
    "R09": ("render/words_of_yaml_stay_names",),
    "R10": ("render/a_queue_brings_topology_priority_and_duration", "practised/jobs_went_through_their_queue"),
    "R11": ("render/without_a_queue_kueue_is_not_asked", "accepted/a_download_runs_past_a_queue_of_gpus"),
    "R12": ("render/a_queue_brings_topology_priority_and_duration",),
    "R13": ("render/a_queue_brings_topology_priority_and_duration",),
    "R14": ("render/target_and_avoided_nodes_hold_together",),
    "R15": ("render/nothing_restarts_after_success_and_a_failure_restarts_as_often_as_asked",),
    "R16": (
        "recipes/a_kept_pod_stays_until_it_is_stopped_and_then_goes_at_once",
        "practised/it_reaches_its_end_with_its_step_lines",
    ),
    "R17": (
        "prepare/sshd_listens_on_2222_with_the_keys_of_the_release",
        "real_ssh/a_person_logs_in_with_a_key_of_their_own",
    ),
    "R18": ("render/environment_is_text_and_has_no_name_twice", "render/a_secret_is_not_given_in_the_open"),
    "R19": ("render/environment_is_text_and_has_no_name_twice", "practised/a_persons_variables_are_in_the_pod"),
    "R20": ("recipes/your_own_script_runs_on_every_pod_with_its_arguments",),
    "R21": ("recipes/your_own_script_runs_on_every_pod_with_its_arguments",),
    "R22": (
        "recipes/your_own_script_runs_on_every_pod_with_its_arguments",
        "render/your_own_script_is_laid_beside_its_launcher",
    ),
    "R23": ("storage/buckets_have_names_options_and_the_pods_own_account",),
    "R24": (
        "storage/plain_nfs_makes_a_volume_and_its_claim",
        "storage/filestore_uses_its_driver_when_the_instance_is_known",
        "accepted/shared_storage_is_made_once_and_stays",
    ),
    "R25": ("storage/lustre_is_bound_by_its_driver", "accepted/shared_storage_is_made_once_and_stays"),
    "R26": ("storage/the_seven_lustre_fields_are_in_the_form",),
    "R27": ("storage/ssd_node_folders_shared_memory_and_claims",),
    "R28": (
        "storage/a_claim_that_exists_is_mounted_and_nothing_is_made",
        "storage/ssd_node_folders_shared_memory_and_claims",
    ),
    "R29": ("storage/ssd_node_folders_shared_memory_and_claims",),
    "R30": ("fit/what_does_not_fit_is_said_at_its_field", "fit/results_that_are_lost_with_the_pod_are_told"),
    "R31": (
        "render/interfaces_are_the_ten_of_a4",
        "render/the_host_network_is_privileged_and_asks_for_no_interfaces",
    ),
    "R32": ("render/presets_of_nccl", "prepare/ranks_find_the_library_and_the_settings_of_gib"),
    "R33": ("real_ssh/two_pods_find_each_other_through_real_sshd",),
    "R34": ("prepare/discovery_tries_again", "prepare/discovery_gives_up_at_its_limit_and_says_who_is_missing"),
    "R35": ("prepare/index_0_prepares_everything",),
    "R36": ("prepare/index_0_prepares_everything", "prepare/small_pods_get_as_many_slots_as_gpus"),
    "R37": (
        "megatron/other_pods_wait_for_index_0_and_take_part",
        "megatron/flags_of_an_earlier_run_are_not_this_runs",
    ),
    "R38": ("megatron/every_switch_skips_its_step_alone",),
    "R39": ("megatron/a_second_run_finds_what_the_first_has_made",),
    "R40": ("megatron/the_environment_is_prepared_on_every_pod",),
    "R41": ("practised/interactive_pods_wait_for_shells",),
    "R42": (
        "recipes/connectivity_is_the_first_command_alone",
        "practised/every_gpu_names_its_node",
        "recordings/mpirun_reaches_every_gpu_of_both_pods",
    ),
    "R43": (
        "recipes/nccl_sizes_are_the_charts",
        "practised/nccl_gives_fourteen_rows_without_a_wrong_value",
        "recordings/the_tables_are_those_of_the_recipe",
    ),
    "R44": (
        "recipes/nccl_in_one_pod_takes_all_its_gpus",
        "practised/nccl_gives_fourteen_rows_without_a_wrong_value",
    ),
    "R45": (
        "recipes/ddp_runs_torchrun_as_the_recipe_does",
        "practised/the_sum_of_the_smoke_test_is_the_expected_one",
        "recordings/ddp_sums_over_the_gpus_of_both_pods",
    ),
    "R46": (
        "megatron/training_gets_the_documents_27_arguments",
        "practised/a_training_prints_every_iteration_in_its_last_pod",
    ),
    "R47": ("fit/what_the_values_come_to_is_told", "schema/the_27_arguments_are_in_the_form_and_explained"),
    "R48": ("megatron/all_model_sizes_reach_the_scripts",),
    "R49": ("megatron/settings_outside_the_27_arguments",),
    "R50": (
        "megatron/training_gets_the_documents_27_arguments",
        "practised/a_training_prints_every_iteration_in_its_last_pod",
    ),
    "R51": (
        "megatron/training_gets_the_documents_27_arguments",
        "practised/a_training_prints_every_iteration_in_its_last_pod",
    ),
    "R52": ("megatron/json_fine_tuning_can_follow", "practised/a_training_prints_every_iteration_in_its_last_pod"),
    "R53": ("megatron/lustre_moves_everything_with_the_workspace",),
    "R54": (
        "megatron/training_gets_the_documents_27_arguments",
        "practised/a_training_prints_every_iteration_in_its_last_pod",
    ),
    "R55": (
        "megatron/training_gets_the_documents_27_arguments",
        "practised/a_training_prints_every_iteration_in_its_last_pod",
    ),
    "R56": ("megatron/fine_tuning_data_are_built_once",),
    "R57": (
        "megatron/conversion_gets_the_documents_arguments",
        "megatron/half_a_conversion_is_made_again_and_a_foreign_one_is_used",
    ),
    "R58": ("megatron/conversion_gets_the_documents_arguments",),
    "R59": ("megatron/conversion_gets_the_documents_arguments",),
    "R60": ("megatron/conversion_settings_reach_the_script",),
    "R61": (
        "megatron/a_download_clones_and_loads_and_does_nothing_else",
        "practised/downloads_name_their_files_and_take_no_gpu",
    ),
    "R62": ("swift/the_export_is_the_documents", "practised/an_export_tells_how_precise_it_is"),
    "R63": ("swift/dpo_gets_the_documents_flags", "practised/a_training_prints_every_iteration_in_its_last_pod"),
    "R64": (
        "swift/several_nodes_meet_at_index_0_with_names_that_stay",
        "practised/a_training_prints_every_iteration_in_its_last_pod",
    ),
    "R65": ("swift/every_dpo_setting_reaches_the_command", "swift/packing_is_left_out_where_it_cannot_be"),
    "R66": ("swift/dpo_gets_the_documents_flags", "swift/a_folder_that_is_no_megatron_lm_is_not_taken_for_one"),
    "R67": (
        "swift/fine_tuning_gets_the_documents_flags",
        "practised/a_training_prints_every_iteration_in_its_last_pod",
    ),
    "R68": (
        "megatron/evaluation_loads_the_benchmarks_and_runs",
        "practised/an_evaluation_has_one_row_for_each_task",
    ),
    "R99": (
        "render/the_host_network_is_privileged_and_asks_for_no_interfaces",
        "render/capabilities_and_privilege_are_a_choice",
    ),
    "R100": ("accepted/launch_and_stop_leave_nothing", "practised/what_stays_goes_when_it_is_stopped"),
    "R101": ("jobs/marked_jobs_stop_together_and_a_refusal_is_told",),
    "R102": ("runs/volumes_stay_and_are_found_when_their_release_is_gone",),
    "R103": ("accepted/a_release_of_another_chart_is_not_ours_to_stop", "accepted/launch_and_stop_leave_nothing"),
    "R104": (
        "runs/volumes_stay_and_are_found_when_their_release_is_gone",
        "runs/a_job_that_somebody_deletes_was_stopped",
    ),
    "R106": (
        "render/nothing_restarts_after_success_and_a_failure_restarts_as_often_as_asked",
        "practised/it_reaches_its_end_with_its_step_lines",
    ),
    "R107": (
        "render/names_follow_the_namespace_of_the_release",
        "swift/several_nodes_meet_at_index_0_with_names_that_stay",
    ),
    "R108": ("conflicts/the_help_says_how", "schema/every_value_explains_itself"),
    "R109": ("render/finished_jobs_stay_12_hours",),
    "R110": ("fit/what_does_not_fit_is_said_at_its_field",),
    "R113": ("render/nccl_prints_as_much_as_asked",),
    "R115": ("render/names_follow_the_namespace_of_the_release", "render/tolerations_are_the_persons_beside_ours"),
}


ARGUMENTS: dict[str, tuple[str, ...]] = {
    "W03": ("recipes/nccl_runs_the_two_commands_of_the_recipe",),
    "W05": ("recipes/ddp_runs_torchrun_as_the_recipe_does",),
    **dict.fromkeys(
        ("W06", "W07", "W08", "W09", "W10", "W12", "W13"), ("megatron/training_gets_the_documents_27_arguments",)
    ),
    **dict.fromkeys(("W14", "W15", "W16"), ("megatron/conversion_gets_the_documents_arguments",)),
    **dict.fromkeys(("W19", "W20"), ("swift/dpo_gets_the_documents_flags",)),
    "W22": ("megatron/evaluation_loads_the_benchmarks_and_runs",),
}
"""Recipes whose whole argument lists stand in the documents, and where the launchers' are held against them."""


def test_the_documents_argument_lists_are_held_against_the_launchers() -> None:
    assert unknown(ARGUMENTS) == []
    codes = {CATALOGUE.recipe(recipe).code for recipe in (*documents.TRAINING, *documents.CONVERSION)}
    assert codes == {f"W{number:02d}" for number in (*range(6, 11), *range(12, 17))}


def test_every_capability_has_its_place() -> None:
    asked = [2, 3, *range(6, 69), *range(99, 105), *range(106, 111), 113, 115]
    assert sorted(PROOF) == sorted(f"R{number:02d}" for number in asked)


def test_the_proofs_are_there() -> None:
    assert unknown(PROOF) == []
