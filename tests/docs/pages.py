"""The generated pages by name."""

from pathlib import Path

from tests.docs.commands import commands_page
from tests.docs.keys import keys_page
from tests.docs.manual import manual_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def generated() -> dict[str, str]:
    """Name of each generated page -> its text."""
    return {"keys.md": keys_page(), "commands.md": commands_page(), "a4.1": manual_page()}
