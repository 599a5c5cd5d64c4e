"""Tests by file and name, for the tables that say which one proves what; a name that no file has is a mistake."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILES = {
    "accepted": "chart/test_accepted.py",
    "assets": "console/test_assets.py",
    "buckets": "google/test_buckets.py",
    "builds": "google/test_builds.py",
    "cloud": "console/test_cloud.py",
    "cloud_commands": "screens/cli/test_clusters.py",
    "clusters": "screens/test_clusters.py",
    "commands": "screens/cli/test_commands.py",
    "conflicts": "chart/test_conflicts.py",
    "containers": "contract/test_files.py",
    "drafting": "console/test_drafting.py",
    "dry_run": "chart/test_dry_run.py",
    "entry": "console/google/test_entry.py",
    "fit": "console/models/test_fit.py",
    "field_choices": "google/test_field_choices.py",
    "fleet": "screens/test_fleet.py",
    "fleet_google": "screens/test_fleet_google.py",
    "golden": "chart/test_golden.py",
    "harm": "console/preflight/test_harm.py",
    "hang": "console/models/test_hang.py",
    "image_commands": "google/test_image_commands.py",
    "image_screens": "google/test_image_screens.py",
    "in_pods": "screens/cli/test_in_pods.py",
    "inside": "screens/test_inside.py",
    "jobs": "screens/test_jobs.py",
    "launch": "console/test_launch.py",
    "launch_screen": "screens/test_launch.py",
    "log_commands": "screens/cli/test_logs.py",
    "log_screen": "screens/test_log.py",
    "login": "console/google/test_login.py",
    "logs": "contract/test_logs.py",
    "megatron": "launchers/test_megatron.py",
    "pod_pages": "screens/test_pods.py",
    "pool": "screens/test_pool.py",
    "probe": "console/xray/test_probe.py",
    "practised": "chart/test_practised.py",
    "preflight": "console/preflight/test_failing.py",
    "questions": "console/test_questions.py",
    "without_cluster": "google/test_without_cluster.py",
    "preflight_command": "screens/cli/test_preflight.py",
    "preflight_runs": "console/preflight/test_running.py",
    "preflight_screen": "screens/test_preflight.py",
    "prepare": "launchers/test_prepare.py",
    "profiles": "console/test_profiles.py",
    "queue_screen": "screens/test_queues.py",
    "queues": "contract/test_queueing.py",
    "real_ssh": "launchers/test_real_ssh.py",
    "recipes": "launchers/test_recipes.py",
    "recordings": "launchers/test_recordings.py",
    "render": "chart/test_render.py",
    "run_screen": "screens/test_runs.py",
    "runs": "contract/test_runs.py",
    "schema": "chart/test_schema.py",
    "ssh": "contract/test_ssh.py",
    "startup": "console/google/test_startup.py",
    "storage": "chart/test_storage.py",
    "swift": "launchers/test_swift.py",
    "tunnel_screen": "screens/test_tunnels.py",
    "tunnels": "contract/test_tunnels.py",
    "watching": "screens/cli/test_watching.py",
    "wire": "console/google/test_wire.py",
    "xray": "console/xray/test_xray.py",
}


@cache
def tests_of(file: str) -> frozenset[str]:
    """The tests of one of FILES, without their `test_`."""
    tree = ast.parse((TESTS / FILES[file]).read_text())
    functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name.removeprefix("test_") for name in functions if name.startswith("test_"))


def unknown(table: dict[str, tuple[str, ...]]) -> list[str]:
    """Entries `file/name` of a table that are no tests, and rows without any."""
    found = [f"{row}: nothing" for row, proofs in table.items() if not proofs]
    for row, proofs in table.items():
        for proof in proofs:
            file, _, name = proof.partition("/")
            if name not in tests_of(file):
                found.append(f"{row}: {proof}")
    return found
