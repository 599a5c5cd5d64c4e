"""Profiles: files that a person edits, and what they mean for a recipe. No cluster."""

import stat
from pathlib import Path

import pytest

from console.errors import BadInput
from console.launch.install import ChartCatalog
from console.launch.profiles import Profiles

CATALOGUE = ChartCatalog.from_chart()


@pytest.fixture
def profiles(tmp_path: Path) -> Profiles:
    return Profiles(lambda: CATALOGUE, tmp_path / "profiles")


def write(profiles: Profiles, name: str, text: str) -> None:
    profiles.folder.mkdir(exist_ok=True)
    (profiles.folder / f"{name}.yaml").write_text(text)


async def test_a_profile_is_made_changed_and_deleted(profiles: Profiles) -> None:
    assert await profiles.names() == ()
    await profiles.change_profile("prod", ["queue=a4", "storage.gcs.runs=/gcs", "env.OMP_NUM_THREADS=8"])
    profile = await profiles.change_profile("prod", ["queue=research"], ["env.OMP_NUM_THREADS"])
    assert profile.values == {"queue": "research", "storage": {"gcs": {"runs": "/gcs"}}, "env": {}}
    assert await profiles.names() == ("prod",)
    files = [profiles.folder, *profiles.folder.iterdir()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o700, 0o600}
    await profiles.delete_profile("prod")
    assert await profiles.names() == ()


async def test_a_recipe_takes_what_it_has(profiles: Profiles) -> None:
    await profiles.change_profile("prod", ["queue=a4", "recipe.nccl.begin=8M", "recipe.train.lr=1e-4"])
    assert await profiles.values("prod", "nccl-all-reduce") == {"queue": "a4", "recipe": {"nccl": {"begin": "8M"}}}
    assert await profiles.values("prod", "qwen3-30b-pretrain") == {"queue": "a4", "recipe": {"train": {"lr": "1e-4"}}}


async def test_wrong_keys_are_named(profiles: Profiles) -> None:
    write(profiles, "odd", "queu: a4\nstorage:\n  nfs:\n    servr: 10.0.0.2\ngpus: 16\n")
    profile = await profiles.read("odd")
    assert [(each.path, each.message) for each in profile.problems] == [
        ("queu", "queu is not a value of any recipe; did you mean queue?"),
        ("storage.nfs.servr", "storage.nfs.servr is not a value of any recipe; did you mean storage.nfs.server?"),
    ]
    assert profile.values == {"gpus": 16}
    with pytest.raises(BadInput, match="queu is not a value"):
        await profiles.values("odd", "nccl-all-reduce")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("gpus=12", "GPUs must be 1 to 8, or a multiple of 8"),
        ("ssh.publicKey=abc", "must be one line of an OpenSSH public key"),
        ("storage.gcs.gs://data=/gcs", "without gs://"),
        ("zone=us-central1-b", "zone is not a value of any recipe"),
    ],
)
async def test_what_no_launch_would_take_is_refused_at_once(profiles: Profiles, setting: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        await profiles.change_profile("prod", [setting])
    assert await profiles.names() == ()


async def test_secrets_have_no_place_in_a_profile(profiles: Profiles) -> None:
    with pytest.raises(BadInput, match=r"env\.HF_TOKEN is a secret"):
        await profiles.change_profile("prod", ["env.HF_TOKEN=hunter2"])
    assert await profiles.names() == ()
    write(profiles, "prod", "env: {HF_TOKEN: hunter2, NCCL_DEBUG: INFO}\n")
    profile = await profiles.read("prod")
    assert profile.values == {"env": {"NCCL_DEBUG": "INFO"}}
    assert [each.path for each in profile.problems] == ["env.HF_TOKEN"]
    assert "hunter2" not in str(profile)


async def test_one_profile_is_the_default(profiles: Profiles) -> None:
    assert await profiles.default_name() == ""
    with pytest.raises(BadInput, match="no profile prod"):
        await profiles.make_default("prod")
    await profiles.change_profile("prod", ["queue=a4"])
    await profiles.make_default("prod")
    assert await profiles.default_name() == "prod"
    await profiles.delete_profile("prod")
    assert await profiles.default_name() == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("queue: [a4\n", "is not valid YAML: line 2"),
        ("- a\n- b\n", "is not a map"),
        ("a: &x 1\nb: *x\n", "references"),
        ("[" * 5000 + "]" * 5000, "nested too deep"),
    ],
)
async def test_what_cannot_be_read_is_reported_with_its_place(profiles: Profiles, text: str, why: str) -> None:
    write(profiles, "odd", text)
    with pytest.raises(BadInput, match=why):
        await profiles.read("odd")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "default", ".hidden"])
async def test_names_that_are_no_files_names(profiles: Profiles, name: str) -> None:
    with pytest.raises(BadInput):
        await profiles.change_profile(name, ["queue=a4"])
    with pytest.raises(BadInput):
        await profiles.read(name)


async def test_what_is_not_set_cannot_be_dropped(profiles: Profiles) -> None:
    await profiles.change_profile("prod", ["queue=a4"])
    with pytest.raises(BadInput, match="does not set gpus"):
        await profiles.change_profile("prod", (), ["gpus"])


def test_the_usual_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert Profiles(ChartCatalog.from_chart).folder == tmp_path / "a4" / "profiles"
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Profiles(ChartCatalog.from_chart).folder == tmp_path / ".config" / "a4" / "profiles"


async def test_project_region_and_registry_fill_in_what_a_pasted_command_leaves_open(profiles: Profiles) -> None:
    assert await profiles.place_variables() == {}
    made = await profiles.change_profile("prod", ["project=lab-1", "region=us-central1", "registry=r/x", "queue=a4"])
    assert (made.place_values, made.values) == (
        {"project": "lab-1", "region": "us-central1", "registry": "r/x"}, {"queue": "a4"},
    )  # fmt: skip
    assert not made.problems
    assert await profiles.values("prod", "nccl-all-reduce") == {"queue": "a4"}
    await profiles.make_default("prod")
    assert await profiles.place_variables() == {
        "PROJECT_ID": "lab-1", "PROJECT": "lab-1", "GOOGLE_CLOUD_PROJECT": "lab-1",
        "REGION": "us-central1", "CLUSTER_REGION": "us-central1", "ARTIFACT_REGISTRY": "r/x", "KUEUE_NAME": "a4",
    }  # fmt: skip
    await profiles.change_profile("prod", unset=["project"])
    assert "PROJECT_ID" not in await profiles.place_variables()
