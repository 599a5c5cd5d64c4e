"""client-go's tests of its reflector as a checklist for our watch: each has a test of ours, or a reason why not."""

import re
from functools import cache
from typing import Any

from tests.architecture.sizes import ROOT
from tests.rulers.go_cases import Module, folder_of

_OURS = ROOT / "tests" / "console" / "kube" / "test_watch.py"
_GO = "of Go's types and channels"
_STREAMED = "a list comes page by page here, not as a stream: a table fills while it is read"
_RESYNC = "nothing is told again of what has not changed: who asks reads what is kept"
ANSWERS = {
    "TestCloseWatchChannelOnError": "test_a_line_of_nonsense_costs_a_reconnection_and_no_object",
    "TestRunUntil": "test_a_watch_that_ends_goes_on_where_it_stopped_and_nobody_hears_of_it",
    "TestReflector(Handle)?WatchStopped(Before|After)|TestReflectorStopWatch": _GO,
    "TestReflectorHandleWatchResultChanClosed(Before|After)": "test_a_line_cut_off_costs_nothing",
    "TestReflectorResyncChan|TestReflectorResync": _RESYNC,
    "TestReflector(WatchHandler|ListAndWatch)": "test_the_first_list_fills_page_by_page_and_then_lines_follow",
    "TestReflectorListAndWatchWithErrors": "test_a_list_that_fails_is_reported_at_once_and_tried_again",
    "TestReflectorListAndWatchInitConnBackoff|TestRetryInternalError":
        "test_watches_that_do_not_last_come_less_and_less_often_and_are_named",
    "TestNewReflectorWithCustomBackoff": "test_waits_grow_but_not_beyond_bounds",
    "TestBackoffOnTooManyRequests": "test_how_long_to_wait",
    "TestNoRelistOnTooManyRequests": "test_one_break_is_mended_quietly_and_the_second_is_reported",
    "TestReflectorWatchListPageSize|TestWatchTimeout": "test_pages_and_lines_over_http",
    "TestReflectorNotPaginatingNotConsistentReads|TestReflectorPaginatingNonConsistentReadsIfWatchCacheDisabled|"
    "TestReflectorResyncWithResourceVersion": "a list is always of the newest state, and always by pages",
    "TestReflectorExpiredExactResourceVersion": "test_a_list_that_goes_stale_in_the_middle_begins_again",
    "TestReflectorFullListIfExpired": "test_410_lists_again_and_gives_one_replacement_without_a_gap",
    "TestReflectorFullListIfTooLarge|TestReflectorReplacesStoreOnUnsafeDelete":
        "test_a_restored_server_lists_again_and_one_that_cannot_say_what_is_gone",
    "TestReflectorResourceVersionUpdate": "test_a_watch_that_ends_goes_on_where_it_stopped_and_nobody_hears_of_it",
    "TestGet(TypeDescription|ExpectedGVK)FromObject|TestReflectorListExtract|TestReflectorRespectStoreTransformer": _GO,
    "TestIsUnsupportedTableObject": "whole objects are asked for, never tables",
    "TestReflectorDataConsistencyDetector": "a debugging aid of client-go: it lists all again beside the watch",
    "TestNewReflectorWithDisablementWatchList|TestInitialEvents\\w+|TestWatchList(ResourceVersion)?": _STREAMED,
}  # fmt: skip
"""By the names of theirs: a test of ours in tests/console/kube/test_watch.py, or why there is none."""


def cases(module: Module) -> list[dict[str, Any]]:
    """Their tests, as the module that is tested has them."""
    folder = folder_of(module) / "tools" / "cache"
    texts = [path.read_text() for path in sorted(folder.glob("reflector*_test.go"))]
    names = [name for text in texts for name in re.findall(r"^func (Test\w+)\(t", text, re.MULTILINE)]
    found = [(name, _missing(name)) for name in names]
    return [{"suite": "reflector", "name": name, "case": {}, "fault": fault, "why": fault} for name, fault in found]


def _missing(name: str) -> str:
    answer = next((ours for theirs, ours in ANSWERS.items() if re.fullmatch(theirs, name)), "")
    return "" if answer in _tests() else answer or "NOT EXPLAINED"


@cache
def _tests() -> frozenset[str]:
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)\(", _OURS.read_text(), re.MULTILINE))
