"""`a4 clusters enable`: Google's container service in a project that lacks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import BadInput, in_read_only_mode
from screens.cli.asking import agreed
from screens.cli.connect import cloud_of
from screens.cli.output import say, say_json

if TYPE_CHECKING:
    from screens.cli.options import Options

SERVICE = "container.googleapis.com"


async def enable(options: Options) -> int:
    """Ask, then enable it."""
    if len(options.words) != 1:
        raise BadInput("Name one project.", "a4 clusters enable PROJECT")
    project = options.words[0]
    if options.read_only:
        raise in_read_only_mode(f"enable {SERVICE}")
    question = f"Enable {SERVICE} in project {project}?"
    if not options.yes and not await agreed(["It may cost money once it is used."], question, "Add --yes."):
        return 1
    async with cloud_of(options) as (cloud, _):
        await cloud.enable_service(project, SERVICE)
    if options.json:
        say_json({"kind": "enabled", "project": project, "service": SERVICE})
    else:
        say(f"{SERVICE} is enabled in {project}.")
    return 0
