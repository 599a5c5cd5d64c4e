"""Checks are named by their titles, on the command line too."""

import pytest

from console.errors import BadInput
from console.google.api.calls import format_enable_hint
from console.preflight.all_checks import CHECK_BY_NAME, CHECKS, select_checks
from console.preflight.check import name_of


def test_every_check_has_a_name_of_its_own() -> None:
    names = [name_of(each.title) for each in CHECKS]
    assert len(set(names)) == len(CHECKS)
    assert not set(names) & {each.id.lower() for each in CHECKS}


@pytest.mark.parametrize("word", ["localqueue", "LocalQueue", "P16", "p16"])
def test_a_check_is_chosen_by_name_title_or_id(word: str) -> None:
    assert [each.title for each in select_checks((word,))] == ["LocalQueue"]


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="There is no check lustre-disk") as found:
        select_checks(("lustre-disk",))
    assert "lustre-instance" in found.value.hint


@pytest.mark.parametrize("service", ["lustre.googleapis.com", "file.googleapis.com", "cloudbuild.googleapis.com"])
def test_the_fix_of_a_service_that_is_off_names_a_check_there_is(service: str) -> None:
    assert format_enable_hint(service).split("--fix ")[1].split("`")[0] in CHECK_BY_NAME
