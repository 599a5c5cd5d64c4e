"""Alarms that are sent: to a server of this machine, never shown with their addresses, a failure told once."""

import asyncio
import json
from pathlib import Path

import pytest

from console.metrics.apprise_messages import MAX_MESSAGES, AlarmOutbox, format_failures, mask_address, send_to_all
from console.settings_file import LoadedConfig, load_config
from tests.web_server import server

SECRET = "hunter2-token"


@pytest.mark.slow(reason="starts the program that sends messages")
async def test_a_message_goes_to_all_addresses_without_secrets_and_control_characters() -> None:
    with server() as (host, got):
        to = [f"json://u:{SECRET}@{host}/hook", f"ntfy://{host}/gpus?auth=token&token={SECRET}"]
        assert (
            await send_to_all(to, "llama: nan", "loss is nan\x07; HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzabcdef") == {}
        )
    assert len(got) == 2
    (hook,) = [body for path, _, body in got if path == "/hook"]
    assert hook["title"] == "llama: nan"
    assert hook["message"].startswith("loss is nan ; HF_TOKEN=")
    assert "hf_abcdefghij" not in json.dumps([body for *_, body in got])


@pytest.mark.slow(reason="starts the program that sends messages")
async def test_an_address_that_fails_is_named_without_its_secret() -> None:
    with server(500) as (host, _):
        to = [f"json://u:{SECRET}@{host}", f"nonsense://{SECRET}", f"jsons://{SECRET}.invalid"]
        failed = await send_to_all(to, "a", "b")
    text = format_failures(to, failed)
    assert "json://… (number 1): it refused the message or was not reached" in text
    assert "nonsense://… (number 2): apprise knows no such address" in text
    assert "jsons://… (number 3): it refused" in text
    assert SECRET not in text


@pytest.mark.slow(reason="starts the program that sends messages")
async def test_a_message_without_text_only_looks_at_addresses() -> None:
    with server() as (host, got):
        assert await send_to_all([f"json://{host}", "slack://one"], "", "") == {
            "slack://one": "apprise knows no such address"
        }
    assert got == []


@pytest.mark.slow(reason="starts the program that sends messages")
async def test_alarms_that_come_while_others_are_sent_go_together_and_failures_are_reported_once() -> None:
    told: list[str] = []
    outbox = AlarmOutbox()
    with server() as (host, got):
        addresses = [f"json://{host}", f"nonsense://{SECRET}"]
        outbox.add_message("one: stall", "no step")
        sending = asyncio.create_task(outbox.send_pending(lambda: addresses, told.append))
        await asyncio.sleep(0)  # it has taken the first one
        for at in range(MAX_MESSAGES + 3):
            outbox.add_message(f"job-{at}: nan", "no loss")
        await sending
    assert [body["title"] for *_, body in got] == ["one: stall", f"{MAX_MESSAGES + 3} messages"]
    assert got[1][2]["message"].splitlines()[-1] == "and 3 more"
    assert len(told) == 1
    assert SECRET not in told[0]


@pytest.mark.parametrize(
    "text",
    [
        f'[notifications]\nto = "slack://{SECRET}"',
        f'[notifications]\nto = ["{SECRET}"]',
        f'notifications = "slack://{SECRET}"',
        f'[notifications]\nto = ["slack://{SECRET}"',
        f'[notifications]\nto = ["slack://a/b/{SECRET}"]\nof = 1',
    ],
)
def test_no_sentence_about_the_settings_shows_a_secret(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    found = load_config(tmp_path / "config.toml")
    assert found.problems
    assert SECRET not in repr(found.problems)
    assert SECRET not in repr(found)
    assert SECRET not in repr(found.config.notifications)
    assert isinstance(found, LoadedConfig)


def test_of_an_address_only_its_scheme_is_shown() -> None:
    assert mask_address(f"slack://{SECRET}/b") == "slack://…"
    assert mask_address(f"{SECRET}") == "…"
    assert mask_address(f"mailtos://u:{SECRET}@example.com?to=x\n") == "mailtos://…"
