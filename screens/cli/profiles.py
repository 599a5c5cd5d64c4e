"""`a4 profiles`: lists, shows and changes named sets of values; needs no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from console.errors import BadInput
from console.session import load_catalog
from screens.cli.arguments import Command, Commands, Options, either, flag, json_flag, option, word
from screens.cli.output import print_json, print_line, print_result, print_table, warn

if TYPE_CHECKING:
    from console.launch.profiles import Profiles


async def profiles(options: ProfilesOptions) -> int:
    from console.launch.profiles import Profiles

    kept = Profiles(load_catalog)
    if not options.name:
        if options.by_default is False:
            await kept.make_default("")
            return 0
        as_json = options.json
        default, names = await kept.default_name(), await kept.names()
        if names and not as_json:
            rows = [(name, "yes" if name == default else "") for name in names]
            print_table(("PROFILE", "DEFAULT"), rows, (False, False))
            return 0
        told = {"kind": "profiles", "folder": str(kept.folder), "default": default, "items": names}
        return print_result(as_json, told, f"No profiles in {kept.folder}. Make one: a4 profiles NAME --set queue=a4")
    if options.delete:
        await kept.delete_profile(options.name)
        print_line(f"Removed profile {options.name}.")
        return 0
    if options.set or options.unset:
        await kept.change_profile(options.name, options.set, options.unset)
    if options.by_default is not None:
        await kept.make_default(options.name if options.by_default else "")
    return await show(kept, options.name, as_json=options.json)


async def show(kept: Profiles, name: str, *, as_json: bool) -> int:
    profile = await kept.read(name)
    default = await kept.default_name() == name
    if as_json:
        more = {"values": profile.values, "places": profile.places, "problems": profile.problems}
        print_json({"name": name, "default": default, **more})
    else:
        for each in profile.problems:
            warn(f"{name}: {each.message}")
        told = {**profile.places, **profile.values}
        print_line(yaml.safe_dump(told, sort_keys=False, allow_unicode=True).strip() if told else "# empty")
    return BadInput.exit_code if profile.problems else 0


class ProfilesOptions(Options):
    name: str = word("NAME", nargs="?")
    set: tuple[str, ...] = option("--set", action="append", metavar="KEY=VALUE", help="set a value; may be repeated")
    unset: tuple[str, ...] = option("--unset", action="append", metavar="KEY", help="drop a value; may be repeated")
    by_default: bool | None = either(
        flag("--default", help="use it when none is named"),
        flag("--no-default", default=True, help="use none unless one is named"),
    )
    delete: bool = flag("--delete", help="remove it")
    json: bool = json_flag()


COMMANDS: Commands = {
    "profiles": Command(
        profiles,
        ProfilesOptions,
        description="Profiles are named sets of default values for every form: queue, buckets, image, project. Each is "
        "a YAML file. Without options, list them, or show one.",
    ),
}
