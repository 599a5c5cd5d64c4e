"""Pasted commands and values files of the documents fill the form of the recipe they are about."""

from pathlib import Path

import pytest

from console.kube.nested_values import Value
from console.launch.plan_as_text import PlanTexts
from console.launch.recipes import Draft
from tests.chart.plans import CATALOGUE, offline

DRAFTING = PlanTexts(CATALOGUE, offline().render)
NCCL = "nccl-all-reduce"
COMMANDS = Path(__file__).parents[2] / "fixtures" / "pasted_commands.txt"
SET = {
    "USER": "anna", "RECIPE_ROOT": "/recipe", "REPO_ROOT": "/repo", "WORKLOAD_IMAGE": "registry.example/testbed:1",
    "GCS_BUCKET": "bucket", "KUEUE_NAME": "a4", "PROJECT_ID": "project",
}  # fmt: skip
GCS: dict[str, Value] = {"gcs": {"bucket": "/gcs:implicit-dirs"}}
IMAGE = "registry.example/testbed:1"
LUSTRE: dict[str, Value] = {
    "server": "172.27.48.5", "instance": "my-lustre", "project": "project", "location": "us-central1-a",
}  # fmt: skip


async def pasted(text: str, recipe: str = NCCL, **variables: str) -> Draft:
    return await DRAFTING.parse_pasted(recipe, text, variables={**SET, **variables})


def documents() -> list[str]:
    """A helm command for each launcher of the charts that came before this one, with an empty line between them."""
    return COMMANDS.read_text().split("\n\n")


EXPECTED: dict[str, tuple[str, dict[str, Value]]] = {
    "anna-pai-megatron": ("qwen3-30b-pretrain-pai", {"queue": "a4", "storage": GCS}),
    "anna-qwen3-lustre": ("qwen3-next-lustre", {"image": IMAGE, "storage": {"lustre": LUSTRE}}),
    "anna-testbed startup": ("interactive", {"image": IMAGE, "storage": GCS}),
    "anna-testbed stratup": (
        NCCL,
        {"image": IMAGE, "keepAlive": True, "storage": {**GCS, "logs": "/gcs/testbed-logs"}},
    ),
    "anna-nccl-test": (NCCL, {"image": IMAGE, "storage": GCS}),
    "anna-ddp-test": ("ddp-smoke", {"image": IMAGE, "storage": GCS}),
    "anna-qwen3-training": ("qwen3-30b-pretrain", {"image": IMAGE, "storage": GCS}),
    "anna-qwen3-next-training": ("qwen3-next-pretrain", {"image": IMAGE, "storage": GCS}),
    "anna-qwen3-next-sft": ("qwen3-next-sft", {"image": IMAGE, "storage": GCS}),
}


def _key(name: str, command: str) -> str:
    """Two documents have a testbed, and only one runs tests."""
    spelling = next((word for word in ("startup", "stratup") if name == "anna-testbed" and word in command), "")
    return f"{name} {spelling}".strip()


async def test_every_command_of_the_documents_is_understood() -> None:
    seen = {}
    for command in documents():
        draft = await pasted(command)
        assert draft.problems == ()
        assert {each.path for each in draft.left_out} <= {"volumes.nfs.ip"}, "the document leaves the address open"
        seen[_key(draft.name, command)] = draft.recipe, draft.values
    assert seen == EXPECTED


SEED_VALUES = """\
queue: a4-high
dwsSettings:
  maxRunDurationSeconds: 3600
tasSettings:
  topologyRequest:
    kueue.x-k8s.io/podset-required-topology: "cloud.google.com/gce-topology-subblock"
targetNodes: [n1, n2]
workload:
  gpus: 32
  image: registry.example/x:1
  max_workload_restarts: 2
  arguments[]: []
  workflow: {enabled: true}
  envs:
    - {name: SSH_PUBLIC_KEY, value: "ssh-ed25519 AAAA me"}
    - {name: SLEEP_INFINITY, value: "true"}
    - {name: HF_TOKEN, value: "hf_abcdefghijklmnopqrstuvwxyz012345"}
    - {name: NCCL_IB_TIMEOUT, value: 22}
    - {name: SKIP_TRAINING, value: "true"}
    - {name: NEMO_CONFIG_NAME, value: nemo.yaml}
volumes:
  gcsVolumes: true
  gcsMounts:
    - {bucketName: gs://mine, mountPath: /gcs, mountOptions: implicit-dirs}
    - {bucketName: other}
    - {bucketName: "", mountPath: /x}
  pvcMounts:
    - {claimName: nfs-pvc, mountPath: /mnt}
    - {claimName: extra, mountPath: /extra}
  ssdMountPath: /ssd
  nfs: {enabled: true, ip: 10.0.0.2, volume: share, region: us-central1-a, instance: fs, storage: 1Ti}
  lustre: {enabled: false, ip: 1.2.3.4}
network:
  hostNetwork: true
  gibVersion: latest
  ncclSettings:
    - {name: NCCL_DEBUG, value: INFO}
    - {name: NVTE_UB_SOCKET_IFNAME, value: eth1}
colour: blue
"""


async def test_a_command_tells_its_recipe_where_none_of_its_variables_is_set() -> None:
    told = {}
    for command in documents():
        draft = await DRAFTING.parse_pasted("swift-dpo", command, variables={"USER": "anna"})
        told[_key(draft.name, command)] = draft.recipe
        buckets = [each.message for each in draft.left_out if "bucketName" in each.path]
        assert all("type the value into storage.gcs" in each for each in buckets)
    assert told == {name: recipe for name, (recipe, _) in EXPECTED.items()}


@pytest.mark.parametrize("end", ["\r", "\r\n"])
async def test_line_ends_as_terminals_paste_them_change_nothing(end: str) -> None:
    for command in documents():
        assert await pasted(command.replace("\n", end)) == await pasted(command)


async def test_a_values_file_of_a_document_is_translated() -> None:
    draft = await pasted(SEED_VALUES, "qwen3-30b-pretrain")
    assert draft.problems == ()
    assert draft.values == {
        "queue": "a4-high",
        "maxRunDuration": 3600,
        "topology": {"request": "required", "level": "cloud.google.com/gce-topology-subblock"},
        "placement": {"targetNodes": ["n1", "n2"]},
        "image": "registry.example/x:1",
        "restarts": 2,
        "keepAlive": True,
        "ssh": {"publicKey": "ssh-ed25519 AAAA me"},
        "env": {"NCCL_IB_TIMEOUT": "22"},
        "recipe": {"skip": {"training": True}},
        "storage": {
            "gcs": {"mine": "/gcs:implicit-dirs", "other": "/artifacts:implicit-dirs"},
            "pvc": {"extra": "/extra"},
            "ssd": "/ssd",
            "nfs": {
                "server": "10.0.0.2", "share": "share", "location": "us-central1-a", "instance": "fs", "size": "1Ti",
            },
        },
        "network": {"hostNetwork": True, "nccl": {"debug": "INFO"}},
    }  # fmt: skip
    left = {each.path: each.message for each in draft.left_out}
    assert set(left) == {"HF_TOKEN", "NEMO_CONFIG_NAME", "network.gibVersion", "workload.workflow", "colour"}
    assert left["HF_TOKEN"].endswith("name one instead: secrets.HF_TOKEN=SECRET/KEY.")
    assert "network.gib.image takes a whole image reference" in left["network.gibVersion"]
    assert "hf_abc" not in str(draft)
    assert [each.path for each in draft.notes] == ["storage.gcs"]


async def test_a_command_takes_the_files_that_the_form_takes() -> None:
    (testbed,) = (each for each in documents() if "stratup" in each and "qwen3.sh" not in each)
    for text, recipe in ((SEED_VALUES, "qwen3-30b-pretrain"), (testbed, NCCL)):
        assert await DRAFTING.read_file(recipe, text, variables=SET) == await pasted(text, recipe)
    assert await DRAFTING.detect_recipe(testbed, variables=SET) == NCCL
    assert await DRAFTING.detect_recipe(SEED_VALUES) == ""
    (problem,) = (await DRAFTING.read_file("swift-dpo", testbed, variables=SET)).problems
    assert problem.message == f"These are values of {NCCL}, and this is swift-dpo."


async def test_a_file_of_ours_is_read_strictly_whatever_its_script_says() -> None:
    text = "recipe:\n  script:\n    text: |\n      helm install x y\nqueu: a4\n"
    draft = await DRAFTING.read_file("own-script", text)
    assert draft == DRAFTING.read_yaml("own-script", text)
    assert [each.path for each in draft.problems] == ["queu"]


@pytest.mark.parametrize("name", ["name", "namespace"])
async def test_the_launchs_own_name_is_no_value_of_a_recipe(name: str) -> None:
    (left,) = (await pasted(f"{name}: anna\n")).left_out
    assert left.message.startswith(f"{name} is no value: it is the launch's own")


async def test_a_values_file_of_ours_is_taken_with_unknown_keys_named() -> None:
    text = "recipe:\n  id: swift-dpo\n  swift:\n    tp: 2\n  nccl:\n    end: 1G\nqueu: a4\ngpus: 8\n"
    draft = await pasted(text)
    assert (draft.recipe, draft.values, draft.problems) == ("swift-dpo", {"recipe": {"swift": {"tp": 2}}}, ())
    assert [(each.path, each.line) for each in draft.left_out] == [("queu", 7), ("recipe.nccl.end", 6)]
    assert "did you mean queue?" in draft.left_out[0].message


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("--set gpus=16,queue=a4", {"queue": "a4"}),
        ("--set workload.gpus=32", {"gpus": 32}),
        ("--set 'env.A=x\\,y'", {"env": {"A": "x,y"}}),
        ("--set env.A=x,env.B=y", {"env": {"A": "x", "B": "y"}}),
        ("--set-string env.A=true --set env.B=false", {"env": {"A": "true", "B": "false"}}),
        ("--set placement.targetNodes={n1,n2}", {"placement": {"targetNodes": ["n1", "n2"]}}),
        ("--set targetNodes[0]=n1 --set targetNodes[1]=n2", {"placement": {"targetNodes": ["n1", "n2"]}}),
        ("--set 'placement.nodeSelector.team\\.io/a=b'", {"placement": {"nodeSelector": {"team.io/a": "b"}}}),
        ("--set-json 'placement.targetNodes=[\"n1\"],gpus=8'", {"placement": {"targetNodes": ["n1"]}, "gpus": 8}),
        ("--set-json '{\"gpus\": 8}'", {"gpus": 8}),
        ("--set-literal 'env.A=a,b=c{d}'", {"env": {"A": "a,b=c{d}"}}),
        ("--set env.GLOO_SOCKET_IFNAME=null", {"env": {"GLOO_SOCKET_IFNAME": None}}),
        ("--set 'placement.tolerations[0].key=a,placement.tolerations[0].operator=Exists'",
         {"placement": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
        ("--set workload.envs[7].value=/lustre", {}),
        ("--set=gpus=8 --set-string=queue=a4", {"gpus": 8, "queue": "a4"}),
        ('--set "env.A"="b c"', {"env": {"A": "b c"}}),
        ("--set env.A=${UNSET:-fallback}", {"env": {"A": "fallback"}}),
        ("--set gpus=12", {"gpus": 12}),
    ],
)  # fmt: skip
async def test_helms_grammar(line: str, values: dict[str, Value]) -> None:
    draft = await pasted(f"helm install anna ./chart {line}")
    assert (draft.problems, draft.values, draft.name) == ((), values, "anna")


async def test_the_place_of_a_variable_stands_for_its_name() -> None:
    line = "helm install x c --set-file workload_launcher=/r/pai-megatron-qwen3.sh --set workload.envs[7].value=/shared"
    draft = await pasted(line)
    assert draft.values == {"recipe": {"workspace": "/shared"}}
    assert draft.notes[0].message.startswith("workload.envs[7] was taken as PAI_WORKSPACE_ROOT")
    other = await pasted(f"{line} --set-file pai_training_script=qwen3.sh")
    assert other.values == {}
    assert other.left_out[0].path == "workload.envs[7]", "that chart's list is another one"


async def test_options_lines_and_what_stands_around() -> None:
    text = (
        "export IMAGE=registry.example/y:2\n$ kubectl get pods  # first\n"
        "helm upgrade --install -n team-b --create-namespace \\\n  --set workload.image=$IMAGE \\\r\n"
        "  -l a4.console/recipe=ddp-smoke --wait anna-ddp oci://example/chart --version=1 && echo done\n"
    )
    draft = await pasted(text)
    assert (draft.recipe, draft.name, draft.namespace) == ("ddp-smoke", "anna-ddp", "team-b")
    assert draft.values == {"image": "registry.example/y:2"}


async def test_unknown_names_are_left_out_and_reported() -> None:
    line = "helm install $WHO c --set queue=$Q --set volumes.nfs.ip=<IP> --set gpuz=8 --set env.A=$(id)"
    draft = await pasted(f"{line} --set recipe.swift.tp=2")
    assert (draft.values, draft.name, draft.problems) == ({}, "", ())
    assert {each.path: each.message for each in draft.left_out} == {
        "queue": "queue was not imported: $Q is not known here; type the value into queue.",
        "volumes.nfs.ip": "volumes.nfs.ip was not imported: <IP> is not known here;"
        " type the value into storage.nfs.server.",
        "env.A": "env.A was not imported: $(id) is not known here; type the value into its field.",
        "gpuz": "gpuz was not imported: no value of this chart, nor of those that it understands, is called so.",
        "recipe.swift.tp": "recipe.swift.tp was not imported: it has no effect in nccl-all-reduce.",
        "name": "The release's name was not imported: $WHO is not known here.",
    }  # fmt: skip


async def test_files_that_are_here_are_read(tmp_path: Path) -> None:
    (tmp_path / "v.yaml").write_text(
        "workload:\n  gpus: 32\n  envs:\n    - {name: A, value: one}\n    - {name: B, value: two}\n"
    )
    (tmp_path / "mine.sh").write_text("echo hello\n")
    line = (
        f"helm install x c -f {tmp_path}/v.yaml --set workload.envs[1].value=three"
        f" --set-file workload_launcher={tmp_path}/mine.sh -f /nowhere/values.yaml"
    )
    draft = await pasted(line)
    assert draft.recipe == "own-script"
    assert draft.values == {
        "gpus": 32, "env": {"A": "one", "B": "three"}, "recipe": {"script": {"text": "echo hello\n"}},
    }  # fmt: skip
    assert [each.message.split()[0] for each in draft.notes] == ["/nowhere/values.yaml"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("helm install 'anna", "The quote ' in line 1 is never closed."),
        ('helm install x c --set "a=b', 'The quote " in line 1 is never closed.'),
        ("helm install x c --set gpus", "--set gpus has no value. Write path=value; "),
        ("helm install x c --set a[9999999]=1", "counts beyond"),
        ("helm install x c --set a[x]=1", "is not the path of a value"),
        ("helm install x c --set-json a=[1", "is not valid JSON"),
        ("# please run helm install\n", ""),
        ("gpus: [1,\n", "not YAML"),
        ("gpus: 8\ngpus: 9\n", "is set twice"),
    ],
)
async def test_what_cannot_be_read_is_a_sentence(text: str, part: str) -> None:
    draft = await pasted(text)
    assert part in "".join(map(str, draft.problems))
    assert bool(draft.problems) == bool(part) or "no helm install command" in str(draft.problems[0])
    assert draft.values == {}


async def test_an_own_environment_fills_in_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUEUE_NAME", "from-here")
    draft = await DRAFTING.parse_pasted(NCCL, "--set queue=$KUEUE_NAME")
    assert draft.values == {"queue": "from-here"}


async def test_the_values_that_a4_writes_name_their_recipe() -> None:
    text = DRAFTING._chart_catalog.values_file("swift-dpo")
    draft = await pasted(text)
    assert (draft.recipe, draft.values) == ("swift-dpo", {})
    assert not draft.left_out
