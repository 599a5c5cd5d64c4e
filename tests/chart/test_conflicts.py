"""Where the documents disagree or are wrong, the decision stands in the help of the value it concerns."""

from __future__ import annotations

import pytest

from tests.chart.plans import CATALOGUE
from tests.chart.proofs import unknown

HELP = {field.path: field.description for recipe in CATALOGUE.recipes() for field in CATALOGUE.fields(recipe.id)}
HELP |= {recipe.id: f"{recipe.summary} {recipe.needs}" for recipe in CATALOGUE.recipes()}
DECISIONS = {
    "C01": ("queue", "only 000 passes it on"),
    "C02": ("queue", "a4 or a4-high"),
    "C06": ("interactive", "No test runs by itself"),
    "C07": ("recipe.train.output", "the script writes here only"),
    "C08": ("storage.nfs.claim", "Mounted only when named"),
    "C09": ("keepAlive", "launchers ignore it"),
    "C10": ("ssh.publicKey", "disagree whether it is for you or for the pods"),
    "C11": ("env", "always text"),
    "C12": ("image", "plain base images do"),
    "C13": ("recipe.model.exported", "-mcore-te-to-hf, which nothing writes"),
    "C14": ("connectivity", "fixed 16 ranks"),
    "C15": ("recipe.skip.data", "No document's recipe builds it"),
    "C16": ("recipe.train.recompute", "writes false where the script wants none"),
    "C17": ("recipe.train.globalBatch", "fits 8 GPUs only"),
    "C18": ("recipe.skip.environment", "here every pod is prepared"),
    "C19": ("recipe.train.flash", "on B200 it must be on"),
    "C20": ("recipe.workspace", "even when Lustre is mounted at /lustre"),
    "C21": ("recipe.skip.conversion", "found by its marker file"),
    "C22": ("recipe.workspace", "a folder for each run"),
    "C23": ("ssh.publicKey", "2222 counts"),
    "C24": ("discovery", "the release's own namespace"),
    "C25": ("recipe.swift.version", "B200 needs 12.8"),
    "C26": ("storage.gcs", "hostNetworkPodKSA"),
    "C27": ("restarts", "succeeded never starts again"),
    "C28": ("network.subnetworks", "misspell this key"),
    "C29": ("placement.targetNodes", "both hold"),
    "C30": ("storage.nfs.claim", "stays when the job is stopped"),
    "C31": ("network.gib.image", "not a version alone"),
    "C33": ("placement.accelerator", "nvidia-b200 on A4"),
    "C35": ("recipe.model.folder", "qwen-ckpts/ and ckpts/huggingface/"),
    "C37": ("storage.nfs.instance", "empty: plain NFS"),
    "C38": ("recipe.swift.packing", "Left out below 3.8"),
    "C39": ("swift-sft", "asks for 4 and uses 2"),
    "C40": ("storage.nfs.location", "the documents call it region"),
    "C41": ("network.nccl.debug", "VERSION in 000 and 003, WARN in 001, INFO in 002"),
    "C42": ("restarts", "document 000 promises recovery"),
    "C43": ("network.gib.image", "not as a sidecar"),
}
NO_VALUE = {
    "C03": "the oldest version of GKE is a check of the cluster",
    "C04": "what a cluster must have is a check of the cluster",
    "C05": "releases are found in the cluster, by their own names",
    "C32": "building images is no launch",
    "C34": "chart and launchers come with the console: nothing is cloned",
    "C36": "which pod prints progress is found out by reading them all",
}
"""Decided without a value that could say so."""
PROOF: dict[str, tuple[str, ...]] = {
    "C01": ("render/without_a_queue_kueue_is_not_asked", "practised/jobs_went_through_their_queue"),
    "C02": ("schema/queues_claims_and_nodes_are_offered_from_the_cluster",),
    "C05": ("accepted/a_release_of_another_chart_is_not_ours_to_stop", "practised/what_stays_goes_when_it_is_stopped"),
    "C06": ("practised/interactive_pods_wait_for_shells", "practised/every_gpu_names_its_node"),
    "C07": ("megatron/training_gets_the_documents_27_arguments",),
    "C08": ("render/nothing_is_mounted_that_was_not_named",),
    "C09": (
        "recipes/a_pod_prepares_then_runs_then_ends",
        "recipes/a_kept_pod_stays_until_it_is_stopped_and_then_goes_at_once",
        "recipes/other_pods_of_nccl_end_as_index_0_did",
    ),
    "C10": (
        "prepare/without_a_persons_key_only_the_pods_may_log_in",
        "real_ssh/a_person_logs_in_with_a_key_of_their_own",
    ),
    "C11": ("render/environment_is_text_and_has_no_name_twice",),
    "C12": ("render/two_releases_share_no_key", "real_ssh/two_pods_find_each_other_through_real_sshd"),
    "C13": (
        "megatron/evaluation_loads_the_benchmarks_and_runs",
        "megatron/training_gets_the_documents_27_arguments",
        "megatron/a_download_clones_and_loads_and_does_nothing_else",
    ),
    "C14": ("recipes/connectivity_is_the_first_command_alone",),
    "C15": ("megatron/fine_tuning_data_are_built_once",),
    "C16": ("megatron/training_gets_the_documents_27_arguments",),
    "C17": ("fit/what_does_not_fit_is_said_at_its_field",),
    "C18": ("megatron/the_environment_is_prepared_on_every_pod",),
    "C19": ("megatron/training_gets_the_documents_27_arguments",),
    "C20": ("megatron/lustre_moves_everything_with_the_workspace",),
    "C21": ("megatron/half_a_conversion_is_made_again_and_a_foreign_one_is_used",),
    "C22": ("megatron/flags_of_an_earlier_run_are_not_this_runs",),
    "C23": ("prepare/sshd_listens_on_2222_with_the_keys_of_the_release",),
    "C24": ("render/names_follow_the_namespace_of_the_release",),
    "C25": ("fit/what_does_not_fit_is_said_at_its_field",),
    "C26": ("storage/buckets_have_names_options_and_the_pods_own_account",),
    "C27": ("render/nothing_restarts_after_success_and_a_failure_restarts_as_often_as_asked",),
    "C28": ("render/interfaces_are_the_ten_of_a4", "render/your_own_script_is_laid_beside_its_launcher"),
    "C29": ("render/target_and_avoided_nodes_hold_together",),
    "C30": ("accepted/shared_storage_is_made_once_and_stays", "storage/what_others_may_use_is_kept"),
    "C31": ("render/gib_is_installed_by_an_init_container_from_a_whole_reference",),
    "C33": ("render/the_accelerator_is_the_nodes_label",),
    "C34": ("assets/a_wheel_has_them_inside",),
    "C35": ("megatron/training_gets_the_documents_27_arguments", "megatron/conversion_gets_the_documents_arguments"),
    "C36": ("practised/a_training_prints_every_iteration_in_its_last_pod",),
    "C37": (
        "storage/plain_nfs_makes_a_volume_and_its_claim",
        "storage/filestore_uses_its_driver_when_the_instance_is_known",
    ),
    "C38": ("swift/packing_is_left_out_where_it_cannot_be",),
    "C39": ("swift/fine_tuning_gets_the_documents_flags",),
    "C40": ("storage/filestore_uses_its_driver_when_the_instance_is_known",),
    "C41": ("render/nccl_prints_as_much_as_asked",),
    "C42": ("render/nothing_restarts_after_success_and_a_failure_restarts_as_often_as_asked",),
    "C43": ("render/gib_is_installed_by_an_init_container_from_a_whole_reference",),
}
"""Which tests show that it is as the decision says."""
OTHERS = {"C03", "C04", "C32"}
"""Of clusters and images, which no launch has a say in."""


def test_every_conflict_is_decided() -> None:
    every = {f"C{number:02d}" for number in range(1, 44)}
    assert set(DECISIONS) | set(NO_VALUE) == every
    assert not set(DECISIONS) & set(NO_VALUE)
    assert set(PROOF) == every - OTHERS


def test_the_proofs_are_there() -> None:
    assert unknown(PROOF) == []


@pytest.mark.parametrize("conflict", DECISIONS)
def test_the_help_says_how(conflict: str) -> None:
    path, words = DECISIONS[conflict]
    assert words in HELP[path]
