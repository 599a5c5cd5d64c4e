"""Which tests prove what Google's side is to do: preflight P, operations O, capabilities R, recipes W."""

from __future__ import annotations

from tests.chart.proofs import unknown
from tests.console.preflight.test_failing import CASES, ELSEWHERE

BUILT = (
    "image_screens/build_follow_and_launch_with_the_new_image",
    "image_commands/from_the_list_to_a_built_image_and_back",
)

RUN = (*BUILT, "image_commands/one_is_cancelled_another_runs_in_a_job")
"""Built, and then running in a pod."""

CAPABILITIES: dict[str, tuple[str, ...]] = {
    "R01": ("cloud/entering_a_cluster_changes_no_file", "clusters/enter_goes_into_a_cluster", "cloud_commands/connect"),
    "R04": (
        "preflight/it_fails_when_it_should",
        "preflight_screen/each_result_has_its_mark_and_words",
        "preflight_screen/the_launch_form_looks_by_itself_and_opens_the_checks",
    ),
    "R05": ("preflight/it_fails_when_it_should", "preflight_runs/versions_are_compared_by_their_numbers"),
    "R25": ("storage/lustre_is_bound_by_its_driver", "accepted/shared_storage_is_made_once_and_stays"),
    "R26": (
        "buckets/lustre_fills_seven_fields_that_launch",
        "image_screens/lustre_fills_the_form_that_is_open",
        "field_choices/lustre_fills_its_seven_fields_from_one_of_them",
    ),
    "R69": ("builds/a_build_prints_ends_and_its_image_is_offered_at_once", *BUILT),
    "R70": (
        "builds/the_list_comes_in_pages_latest_first",
        "builds/no_line_of_a_log_comes_twice_or_is_lost_however_often_one_looks",
        "image_screens/one_is_cancelled_only_after_a_question",
    ),
    "R71": RUN,
    "R72": (
        "builds/a_dockerfile_of_ones_own_becomes_a_tag_in_the_registry",
        "builds/a_folder_of_ones_own",
        "preflight/a_built_image_is_found_in_its_repository",
    ),
    "R73": (
        "preflight_runs/a_service_that_is_off_offers_to_be_enabled",
        "preflight_runs/a_repository_and_a_queue_are_created",
    ),
    "R74": ("preflight_runs/an_addon_is_switched_on",),
    "R81": ("buckets/logs_are_laid_out_as_the_document_has_them", "image_commands/logs_of_a_job_go_into_a_bucket"),
    "R82": (
        "buckets/checkpoints_by_iteration_and_the_last_whole_one",
        "image_screens/into_the_folders_of_a_bucket_and_back_and_a_copy",
    ),
    "R86": (
        "fleet/pools_with_what_is_free_and_what_is_broken",
        "fleet/the_floor_shows_every_host_in_its_place",
        "fleet_google/a_key_shows_pools_without_machines_and_why_they_have_none",
    ),
}

RECIPES: dict[str, tuple[str, ...]] = {
    "W23": (
        *RUN,
        "image_screens/one_is_cancelled_only_after_a_question",
        "without_cluster/an_image_is_built_from_credentials_alone",
        "without_cluster/a_service_is_enabled_and_a_repository_made",
    ),
    "W28": (
        "preflight_runs/an_addon_is_switched_on",
        "preflight_runs/a_service_that_is_off_offers_to_be_enabled",
        "preflight_runs/a_repository_and_a_queue_are_created",
        "buckets/lustre_fills_seven_fields_that_launch",
    ),
}

PREFLIGHT: dict[str, tuple[str, ...]] = {
    **{case.id: ("preflight/it_fails_when_it_should", "harm/what_is_taken_away_is_reported") for case in CASES},
    "P33": ("preflight_runs/what_may_not_be_seen_is_not_missing", "harm/what_is_taken_away_is_reported"),
}
"""The failing half; that each answers with evidence and a fix is `preflight_runs/every_check_answers...`."""

OPERATIONS: dict[str, tuple[str, ...]] = {
    "O01": ("profiles/a_profile_is_made_changed_and_deleted", "profiles/one_profile_is_the_default"),
    "O02": ("cloud_commands/connect", "clusters/enter_goes_into_a_cluster", "entry/a_new_file_is_its_owners_alone"),
    "O03": (
        "launch/the_chart_is_given_what_differs_and_the_launchers",
        "builds/the_documents_images_are_there_with_their_defaults",
    ),
    "O04": ("launch_screen/the_main_job_form_look_launch_job",),
    "O05": ("run_screen/before_a_stop_every_object_is_named", "jobs/marked_jobs_stop_together_and_a_refusal_is_told"),
    "O06": ("jobs/job_header_ranks_and_first_failure", "commands/every_list_prints_its_documented_keys"),
    "O07": (
        "log_screen/a_pod_is_listed_with_its_node_and_its_address",
        "commands/every_list_prints_its_documented_keys",
    ),
    "O08": (
        "logs/no_line_is_lost_or_doubled",
        "pod_pages/its_log_is_followed",
        "log_screen/a_container_of_a_pod_is_chosen_and_its_run_before",
        "jobs/the_log_of_all_ranks_and_what_they_agree_on",
    ),
    "O09": ("jobs/log_follows_the_chosen_rank_and_its_next_pod", "jobs/the_log_of_all_ranks_and_what_they_agree_on"),
    "O10": ("in_pods/a_shell_on_a_terminal_names_the_window_and_passes_its_code_on",),
    "O11": ("jobs/jobs_say_state_ranks_and_what_matters_most",),
    "O12": ("pod_pages/a_pod_has_a_page_with_containers_and_events",),
    "O13": (
        "pod_pages/events_stand_newest_first_and_only_those_of_the_object_or_its_release",
        "pod_pages/a_pod_has_a_page_with_containers_and_events",
    ),
    "O14": ("fleet/a_pool_leads_to_its_nodes_and_a_node_to_its_pods",),
    "O15": ("in_pods/facts_of_a_rank", "watching/gpus_worst_first"),
    "O16": ("in_pods/facts_of_a_rank", "containers/a_container_says_what_it_has"),
    "O17": ("recipes/nccl_in_one_pod_takes_all_its_gpus", "commands/exec_passes_on_output_and_exit_code"),
    "O18": (
        "recipes/connectivity_is_the_first_command_alone",
        "in_pods/each_rank_says_its_lines_and_the_worst_code_is_passed_on",
    ),
    "O19": (
        "questions/every_shared_disk_says_how_full_it_is",
        "containers/a_folder_is_listed_and_what_is_in_it_deleted",
        "questions/a_mount_is_not_deleted_and_a_link_goes_alone",
        "in_pods/a_folder_of_a_rank_is_listed_and_deleted_only_after_a_question",
        "inside/a_folder_is_browsed_and_what_is_in_it_deleted_only_after_a_question",
    ),
    "O20": ("questions/nfs_and_lustre_stand_among_the_mounts", "containers/a_container_says_what_it_has"),
    "O21": ("tunnels/bytes_both_ways", "ssh/ssh_scp_and_sftp_by_name"),
    "O22": ("containers/a_folder_there_and_back",),
    "O23": ("xray/a_real_hang_names_the_right_rank", "hang/the_recording_of_a_hang_on_h200_names_rank_2"),
    "O24": ("probe/the_master_s_port_is_reached_or_it_is_said_why_not", "probe/both_are_told_pod_by_pod"),
    "O25": ("run_screen/leftovers_are_removed_one_by_one",),
    "O26": ("probe/rdma_devices_with_the_state_of_their_port", "probe/both_are_told_pod_by_pod"),
    "O27": BUILT,
    "O28": ("builds/the_list_comes_in_pages_latest_first",),
    "O29": (
        "builds/no_line_of_a_log_comes_twice_or_is_lost_however_often_one_looks",
        "builds/a_log_that_is_in_a_bucket_alone_is_read_there",
    ),
    "O30": (
        "preflight_runs/a_service_that_is_off_offers_to_be_enabled",
        "preflight_screen/a_fix_asks_first_and_looks_again",
    ),
    "O31": ("preflight_runs/a_repository_and_a_queue_are_created", "builds/a_repository_is_made_and_made_once"),
    "O32": ("preflight_runs/an_addon_is_switched_on",),
    "O33": ("buckets/lustre_fills_seven_fields_that_launch",),
    "O34": (
        "buckets/checkpoints_by_iteration_and_the_last_whole_one",
        "image_screens/into_the_folders_of_a_bucket_and_back_and_a_copy",
    ),
    "O35": ("render/gpus_become_pods_of_eight",),
    "O36": ("recipes/your_own_script_runs_on_every_pod_with_its_arguments",),
    "O37": ("queues/the_order_of_those_who_wait", "queue_screen/queues_with_bars_states_and_who_waits_why"),
}

FAULTS: dict[str, tuple[str, ...]] = {
    "no credentials": (
        "preflight_runs/without_google_credentials_the_cluster_is_still_looked_at",
        "clusters/without_credentials_it_says_what_to_do",
    ),
    "service not enabled": (
        "wire/a_service_that_is_not_enabled_is_named_and_can_be_enabled",
        "clusters/a_service_that_is_not_enabled_is_enabled_by_a_key_that_asks",
    ),
    "a login that has ended": (
        "login/a_login_that_has_ended_is_told_at_once_not_after_all_tries",
        "wire/a_login_that_ended_is_no_service_that_is_away",
    ),
    "a wrong project": ("wire/a_wrong_project_and_a_place_without_clusters",),
    "a region without clusters": ("wire/a_wrong_project_and_a_place_without_clusters",),
    "a quota that is used up": ("wire/errors_say_what_to_do", "wire/a_quota_that_is_used_up_is_told_by_the_operation"),
    "a cluster in error": ("cloud/what_cannot_be_entered_says_why", "cloud_commands/connect_to_what_cannot_be"),
    "one of many projects": ("cloud/clusters_of_all_projects_and_why_some_could_not_be_read",),
    "an operation that fails half-way": ("wire/an_operation_fails_half_way",),
    "ten thousand clusters": ("clusters/ten_thousand_clusters", "wire/thousands_of_clusters_hold_nothing_up"),
    "projects page by page": ("wire/projects_come_page_by_page",),
    "never an answer": (
        "wire/what_never_answers_is_given_up",
        "preflight_runs/no_answer_in_time_and_a_service_that_is_away",
    ),
    "nothing of it at the start": ("startup/no_library_of_googles_is_loaded",),
}


def test_every_row_is_there() -> None:
    assert sorted(CAPABILITIES) == sorted(f"R{number:02d}" for number in (1, 4, 5, 25, 26, *range(69, 75), 81, 82, 86))
    assert sorted(PREFLIGHT) == [f"P{number:02d}" for number in range(1, 36)]
    assert sorted(OPERATIONS) == [f"O{number:02d}" for number in range(1, 38)]
    assert {case.id for case in CASES} | ELSEWHERE == set(PREFLIGHT)


def test_the_proofs_are_there() -> None:
    for table in (CAPABILITIES, RECIPES, PREFLIGHT, OPERATIONS, FAULTS):
        assert unknown(table) == []
