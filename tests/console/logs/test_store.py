"""Folders of logs: who writes, what stays, what goes."""

import os
import stat
from pathlib import Path

import pytest

from console.logs.log_folder import JobLogStore, JobMetadata, delete_old_logs, find_stored_job, stored_jobs
from console.logs.log_segment import LogSegment
from console.scheduling.pod_failure import PodFailure

NOTE = JobMetadata("uid-1", "default", "llama", "ctx", 2, 100.0)


def put(shelf: JobLogStore, *texts: str, uid: str = "pod-uid") -> Path:
    file = shelf.segment_path(1, 0, "main", uid)
    part = LogSegment.load(file, 1) if file.exists() else LogSegment(1, file=file)
    start = len(part)
    part.append_lines(
        [(float(at), b"1970-01-01T00:00:%02dZ %s" % (at, text.encode())) for at, text in enumerate(texts, start)]
    )
    part.write_pending()
    return file


def texts(root: Path) -> list[bytes]:
    shelf = find_stored_job(root, NOTE.context, "default", "llama")
    assert shelf is not None
    return [text for part in shelf.load_segments() for text in part.read_texts(0, 999)]


def test_what_is_kept_is_found_by_name_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    shelf = JobLogStore.open(tmp_path, NOTE)
    file = put(shelf, "a", "b")
    shelf.record_failure(PodFailure(0, 1, "pod", "node", "OOMKilled", exit_code=137, time=5.0))
    shelf.close()
    assert texts(tmp_path) == [b"a", b"b"]
    (found,) = stored_jobs(tmp_path)
    assert found.metadata == NOTE
    assert [each.exit_code for each in found.read_failures()] == [137]
    assert [(part.rank, part.attempt, part.container, part.uid) for part in found.load_segments()] == [
        (1, 0, "main", "pod-uid")
    ]
    for path in (file, file.parent.parent / "job.json", file.parent.parent / "endings.jsonl"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_second_console_keeps_a_copy_and_hands_in_what_the_first_missed(tmp_path: Path) -> None:
    first = JobLogStore.open(tmp_path, NOTE)
    second = JobLogStore.open(tmp_path, NOTE)
    assert (first.is_private, second.is_private) == (False, True)
    put(first, "a", "b")
    put(second, "a", "b", "c")
    assert texts(tmp_path) == [b"a", b"b"]
    first.close()
    second.close()
    assert texts(tmp_path) == [b"a", b"b", b"c"]
    assert not list(tmp_path.glob("*/private-*"))


def test_a_copy_is_dropped_while_the_first_still_writes(tmp_path: Path) -> None:
    first = JobLogStore.open(tmp_path, NOTE)
    second = JobLogStore.open(tmp_path, NOTE)
    put(second, "a")
    second.close()
    put(first, "a", "b")
    first.close()
    assert texts(tmp_path) == [b"a", b"b"]


def test_names_from_the_server_never_lead_out_of_the_folder(tmp_path: Path) -> None:
    shelf = JobLogStore.open(tmp_path / "logs", JobMetadata("../../evil", "default", "llama", NOTE.context))
    put(shelf, "a", uid="../../../x")
    shelf.close()
    assert texts(tmp_path / "logs") == [b"a"]
    assert [each.name for each in tmp_path.iterdir()] == ["logs"]


def test_old_logs_go_then_the_oldest_until_the_rest_is_small_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A4_LOGS_KEEP_DAYS", "10")
    now = 1e9
    for number, days in enumerate((20, 5, 4, 3)):
        shelf = JobLogStore.open(tmp_path, JobMetadata(f"uid-{number}", "default", "job"))
        put(shelf, "x" * 1000)
        shelf.close()
        for file in shelf.folder.rglob("*.*"):
            os.utime(file, (now - days * 86400, now - days * 86400))
    assert delete_old_logs(tmp_path, now=now) == ["uid-0"]
    monkeypatch.setenv("A4_LOGS_KEEP_GB", "0.0000025")
    busy = JobLogStore.open(tmp_path, JobMetadata("uid-1", "default", "job"))
    assert delete_old_logs(tmp_path, now=now) == ["uid-2"]
    busy.close()
    monkeypatch.setenv("A4_LOGS_KEEP_GB", "nonsense")
    assert delete_old_logs(tmp_path, now=now) == []


def test_a_file_that_goes_while_old_logs_are_looked_for_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = JobLogStore.open(tmp_path, JobMetadata("uid-0", "default", "job"))
    shelf.close()
    temporary = shelf.folder / "job.json.tmp"
    temporary.touch()
    look = os.stat

    def gone_after_a_look(path: str | Path, **options: bool) -> os.stat_result:
        found = look(path, **options)
        if str(path) == str(temporary):
            temporary.unlink()
        return found

    monkeypatch.setattr(os, "stat", gone_after_a_look)
    monkeypatch.setattr(os, "lstat", gone_after_a_look)
    assert delete_old_logs(tmp_path) == []
    assert not temporary.exists()


def test_two_clusters_of_one_context_name_do_not_share_what_is_kept(tmp_path: Path) -> None:
    for uid, server, created in (("uid-1", "https://one", 100.0), ("uid-2", "https://two", 200.0)):
        shelf = JobLogStore.open(tmp_path, JobMetadata(uid, "default", "llama", "ctx", 2, created, "", server))
        put(shelf, server)
        shelf.close()

    def found(context: str, server: str) -> str:
        shelf = find_stored_job(tmp_path, context, "default", "llama", server=server)
        return shelf.metadata.uid if shelf else ""

    assert (found("ctx", "https://one"), found("ctx", "https://two"), found("ctx", "https://three")) == (
        "uid-1", "uid-2", "",
    )  # fmt: skip
    assert found("renamed since", "https://one") == "uid-1"


def test_logs_kept_before_the_server_was_noted_are_found_by_the_context(tmp_path: Path) -> None:
    folder = tmp_path / "uid-1"
    folder.mkdir()
    (folder / "job.json").write_text('{"uid": "uid-1", "namespace": "default", "name": "llama", "context": "ctx"}')
    assert find_stored_job(tmp_path, "ctx", "default", "llama", server="https://one") is not None
    assert find_stored_job(tmp_path, "other", "default", "llama", server="https://one") is None
