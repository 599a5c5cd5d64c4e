"""Which test proves which capability of the requirements, for what the chart and the launchers do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
RENDER, STORAGE, ACCEPTED, SCHEMA = (f"chart/test_{name}.py" for name in ("render", "storage", "accepted", "schema"))
PREPARE, RECIPES, MEGATRON, SWIFT = (f"launchers/test_{n}.py" for n in ("prepare", "recipes", "megatron", "swift"))
FIT, LAUNCH = "console/models/test_fit.py", "console/test_launch.py"

PROOF = {
    "R03": (STORAGE, "test_a_bucket_is_a_name_alone"),
    "R06": ("chart/test_golden.py", "test_manifests_are_the_golden_ones"),
    "R07": (RENDER, "test_other_counts_are_refused"),
    "R08": (RENDER, "test_gpus_become_pods_of_eight"),
    "R09": (RENDER, "test_words_of_yaml_stay_names"),
    "R10": (RENDER, "test_a_queue_brings_topology_priority_and_duration"),
    "R11": (RENDER, "test_without_a_queue_kueue_is_not_asked"),
    "R12": (RENDER, "test_a_queue_brings_topology_priority_and_duration"),
    "R13": (RENDER, "test_a_queue_brings_topology_priority_and_duration"),
    "R14": (RENDER, "test_target_and_avoided_nodes_hold_together"),
    "R15": (RENDER, "test_nothing_restarts_after_success_and_a_failure_restarts_as_often_as_asked"),
    "R16": (RECIPES, "test_a_kept_pod_stays_until_it_is_stopped_and_then_goes_at_once"),
    "R17": (PREPARE, "test_sshd_listens_on_2222_with_the_keys_of_the_release"),
    "R18": (RENDER, "test_environment_is_text_and_has_no_name_twice"),
    "R19": (RENDER, "test_environment_is_text_and_has_no_name_twice"),
    "R20": (RECIPES, "test_your_own_script_runs_on_every_pod_with_its_arguments"),
    "R21": (RECIPES, "test_your_own_script_runs_on_every_pod_with_its_arguments"),
    "R22": (RENDER, "test_your_own_script_is_laid_beside_its_launcher"),
    "R23": (STORAGE, "test_buckets_have_names_options_and_the_pods_own_account"),
    "R24": (STORAGE, "test_filestore_uses_its_driver_when_the_instance_is_known"),
    "R25": (STORAGE, "test_lustre_is_bound_by_its_driver"),
    "R27": (STORAGE, "test_ssd_node_folders_shared_memory_and_claims"),
    "R28": (STORAGE, "test_a_claim_that_exists_is_mounted_and_nothing_is_made"),
    "R29": (STORAGE, "test_ssd_node_folders_shared_memory_and_claims"),
    "R30": (FIT, "test_what_does_not_fit_is_said_at_its_field"),
    "R31": (RENDER, "test_interfaces_are_the_ten_of_a4"),
    "R32": (RENDER, "test_presets_of_nccl"),
    "R33": ("launchers/test_real_ssh.py", "test_two_pods_find_each_other_through_real_sshd"),
    "R34": (PREPARE, "test_discovery_tries_again"),
    "R35": (PREPARE, "test_index_0_prepares_everything"),
    "R36": (PREPARE, "test_index_0_prepares_everything"),
    "R37": (MEGATRON, "test_flags_of_an_earlier_run_are_not_this_runs"),
    "R38": (MEGATRON, "test_every_switch_skips_its_step_alone"),
    "R39": (MEGATRON, "test_a_second_run_finds_what_the_first_has_made"),
    "R40": (MEGATRON, "test_the_environment_is_prepared_on_every_pod"),
    "R41": (RECIPES, "test_a_kept_pod_stays_until_it_is_stopped_and_then_goes_at_once"),
    "R42": (RECIPES, "test_connectivity_is_the_first_command_alone"),
    "R43": (RECIPES, "test_nccl_sizes_are_the_charts"),
    "R44": (RECIPES, "test_nccl_in_one_pod_takes_all_its_gpus"),
    "R45": (RECIPES, "test_ddp_runs_torchrun_as_the_recipe_does"),
    "R46": (MEGATRON, "test_training_gets_the_documents_27_arguments"),
    "R47": (FIT, "test_what_the_values_come_to_is_told"),
    "R48": (MEGATRON, "test_all_model_sizes_reach_the_scripts"),
    "R49": (MEGATRON, "test_settings_outside_the_27_arguments"),
    "R50": (MEGATRON, "test_training_gets_the_documents_27_arguments"),
    "R51": (MEGATRON, "test_training_gets_the_documents_27_arguments"),
    "R52": (MEGATRON, "test_json_fine_tuning_can_follow"),
    "R53": (MEGATRON, "test_lustre_moves_everything_with_the_workspace"),
    "R54": (MEGATRON, "test_training_gets_the_documents_27_arguments"),
    "R55": (MEGATRON, "test_training_gets_the_documents_27_arguments"),
    "R56": (MEGATRON, "test_fine_tuning_data_are_built_once"),
    "R57": (MEGATRON, "test_conversion_gets_the_documents_arguments"),
    "R58": (MEGATRON, "test_conversion_gets_the_documents_arguments"),
    "R59": (MEGATRON, "test_conversion_gets_the_documents_arguments"),
    "R60": (MEGATRON, "test_conversion_settings_reach_the_script"),
    "R61": (MEGATRON, "test_a_download_clones_and_loads_and_does_nothing_else"),
    "R62": (SWIFT, "test_the_export_is_the_documents"),
    "R63": (SWIFT, "test_dpo_gets_the_documents_flags"),
    "R64": (SWIFT, "test_several_nodes_meet_at_index_0_with_names_that_stay"),
    "R65": (SWIFT, "test_every_dpo_setting_reaches_the_command"),
    "R66": (SWIFT, "test_dpo_gets_the_documents_flags"),
    "R67": (SWIFT, "test_fine_tuning_gets_the_documents_flags"),
    "R68": (MEGATRON, "test_evaluation_loads_the_benchmarks_and_runs"),
    "R99": (RENDER, "test_the_host_network_is_privileged_and_asks_for_no_interfaces"),
    "R100": (ACCEPTED, "test_launch_and_stop_leave_nothing"),
    "R103": (ACCEPTED, "test_a_release_of_another_chart_is_not_ours_to_stop"),
    "R106": (RENDER, "test_nothing_restarts_after_success_and_a_failure_restarts_as_often_as_asked"),
    "R107": (RENDER, "test_names_follow_the_namespace_of_the_release"),
    "R108": ("chart/test_conflicts.py", "test_the_help_says_how"),
    "R109": (RENDER, "test_finished_jobs_stay_12_hours"),
    "R110": (FIT, "test_what_does_not_fit_is_said_at_its_field"),
    "R113": (RENDER, "test_nccl_prints_as_much_as_asked"),
    "R115": (RENDER, "test_names_follow_the_namespace_of_the_release"),
}
CONSOLES = {
    "R02": "profiles are kept by the console",
    "R26": "Lustre instances are listed by the console",
    "R101": "stopping several is the console's",
    "R102": "what stays is told by the console before it asks; that it stays is proved with R24",
    "R104": "leftovers are found by the console",
}
"""Capabilities of launching that neither chart nor launchers have."""


def test_every_capability_has_its_place() -> None:
    asked = [3, 2, *range(6, 69), *range(99, 105), *range(106, 111), 113, 115]
    assert sorted(PROOF | CONSOLES) == sorted(f"R{number:02d}" for number in asked)


@pytest.mark.parametrize("capability", PROOF)
def test_the_proof_is_there(capability: str) -> None:
    file, name = PROOF[capability]
    tree = ast.parse((TESTS / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
