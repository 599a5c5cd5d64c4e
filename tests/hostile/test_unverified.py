"""A server whose certificate is not checked is told for as long as it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from console.errors import BadKubeconfig
from console.kube.login import Login
from console.kube.target import Cluster, Target, User
from tests.certificates import usual_certificate
from tests.fakes import FakeSession
from tests.screens.press import console, screen_text
from tests.screens.scene import scene

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [(80, 24), (140, 42)])
async def test_the_title_says_so_on_every_page(size: tuple[int, int]) -> None:
    session = FakeSession(scene())
    session.unverified = True
    async with console(session, size=size) as (app, pilot, _):
        for key in "123456":
            await pilot.press(key)
            await pilot.pause()
            assert "TLS unverified" in screen_text(app).splitlines()[0]


def login(**cluster: object) -> Login:
    return Login(Target("c", "u", "default", Cluster("https://h", **cluster), User()))  # type: ignore[arg-type]


async def test_an_authority_that_is_not_to_be_asked_is_refused_as_by_kubectl(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text(usual_certificate()[1])
    both = login(insecure_skip_tls_verify=True, certificate_authority=str(tmp_path / "ca"))
    with pytest.raises(BadKubeconfig, match="insecure-skip-tls-verify"):
        await both.tls()
    alone = login(insecure_skip_tls_verify=True)
    await alone.tls()
    assert alone.unverified
    assert not login().unverified
