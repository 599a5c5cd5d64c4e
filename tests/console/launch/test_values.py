"""Values that do not fit are said in one sentence at their field; --set lines become values."""

# ruff: noqa: E501  # one case a line, however long its sentence

import pytest

from console.errors import BadInput
from console.kube.nested_values import Value, merge_values
from console.launch.helm_set_parser import convert_values, parse_settings
from console.launch.install import ChartCatalog

CATALOGUE = ChartCatalog.from_chart()
FIELDS = CATALOGUE.fields("nccl-all-reduce")
DEFAULTS = CATALOGUE.defaults("nccl-all-reduce")


def problems(**values: Value) -> dict[str, str]:
    return {problem.path: problem.message for problem in CATALOGUE.checker.problems(merge_values(DEFAULTS, values))}


def test_defaults_fit() -> None:
    assert problems() == {}


@pytest.mark.parametrize(
    ("values", "path", "message"),
    [
        ({"gpus": 12}, "gpus", "GPUs must be 1 to 8, or a multiple of 8, because a node has 8 GPUs; 12 was given."),
        ({"gpus": "many"}, "gpus", "GPUs must be a whole number; many was given."),
        ({"gpus": True}, "gpus", "GPUs must be a whole number; True was given."),
        ({"gpus": 4104}, "gpus", "GPUs must be at most 4,096; 4104 was given."),
        ({"image": ""}, "image", "Image must be an image reference such as registry/repository/name:tag; it is empty."),
        ({"queue": "A4!"}, "queue", "Queue must be the name of a LocalQueue: lower-case letters, digits and dashes; A4! was given."),
        ({"queue": "q" * 64}, "queue", f"Queue may have 63 characters at most; {'q' * 57}... was given."),
        ({"restarts": -1}, "restarts", "Restarts must be at least 0; -1 was given."),
        ({"env": {"NNODES": "2"}}, "env", "Environment: NNODES is set by the chart itself and cannot be given."),
        ({"env": {"A": 1}}, "env", "Environment, A, must be text; 1 was given."),
        ({"secrets": {"HF_TOKEN": "hf_abc"}}, "secrets", "Secrets, HF_TOKEN, must be NAME=secret/key pairs, such as HF_TOKEN=hub/token."),
        ({"topology": {"request": "near"}}, "topology.request", "Topology must be one of preferred, required, none; near was given."),
        (
            {"placement": {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b"}]}},
            "placement.tolerations",
            "Tolerations, entry 2, must have operator; {'key': 'b'} was given.",
        ),
        (
            {"placement": {"tolerations": [{"operator": "Is"}]}},
            "placement.tolerations",
            "Tolerations, entry 1, operator, must be one of Exists, Equal; Is was given.",
        ),
        ({"placement": {"avoidNodes": ["ok", "Not ok"]}}, "placement.avoidNodes", "Not these nodes, entry 2, must be names of nodes; Not ok was given."),
        ({"recipe": {"nccl": {"end": "16GB"}}}, "recipe.nccl.end", "Last size must be a number of bytes such as 8, 512K, 2M or 16G; 16GB was given."),
        ({"placement": 3}, "placement", "placement must be a map of names and values; 3 was given."),
        ({"gpu": 8}, "gpu", "gpu is not a value of the chart; did you mean gpus?"),
        ({"network": {"gib": {"imgae": "x"}}}, "network.gib.imgae", "network.gib.imgae is not a value of the chart; did you mean network.gib.image?"),
        ({"zzz": 1}, "zzz", "zzz is not a value of the chart."),
    ],
)  # fmt: skip
def test_each_fault_is_one_sentence_at_its_field(values: dict[str, Value], path: str, message: str) -> None:
    assert problems(**values) == {path: message}


def test_all_faults_are_reported_in_the_forms_order() -> None:
    assert list(problems(ttl=-1, gpus=12, image="", more=1)) == ["more", "gpus", "image", "ttl"]


def test_null_means_something_in_maps_only() -> None:
    changes: dict[str, Value] = {"env": {"GLOO_SOCKET_IFNAME": None}, "gpus": None, "network": {"masterPort": None}}
    assert [(problem.path, problem.message) for problem in CATALOGUE.checker.null_problems(changes)] == [
        ("gpus", "GPUs may not be null; leave it out to have its default."),
        ("network.masterPort", "Master port may not be null; leave it out to have its default."),
    ]


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        (["gpus=16"], {"gpus": 16}),
        (["keepAlive=true", "queue=a4"], {"keepAlive": True, "queue": "a4"}),
        (["recipe.nccl.end=8G", "recipe.nccl.factor=4"], {"recipe": {"nccl": {"end": "8G", "factor": 4}}}),
        ([r"network.nccl.socketInterfaces=eth0\,eth1"], {"network": {"nccl": {"socketInterfaces": "eth0,eth1"}}}),
        (["placement.avoidNodes={a,b}"], {"placement": {"avoidNodes": ["a", "b"]}}),
        ([r"placement.avoidNodes=a\,b"], {"placement": {"avoidNodes": ["a", "b"]}}),
        ([r"env.NCCL_DEBUG_SUBSYS=a=b\,c"], {"env": {"NCCL_DEBUG_SUBSYS": "a=b,c"}}),
        (["env.A=1", "env.GLOO_SOCKET_IFNAME=null"], {"env": {"A": "1", "GLOO_SOCKET_IFNAME": None}}),
        (["secrets.HF_TOKEN=hub/token"], {"secrets": {"HF_TOKEN": "hub/token"}}),
        (
            [r"placement.nodeSelector.cloud\.google\.com/gke-nodepool=a,placement.nodeSelector.x\.y/z=b"],
            {"placement": {"nodeSelector": {"cloud.google.com/gke-nodepool": "a", "x.y/z": "b"}}},
        ),
        (["placement.tolerations=[{operator: Exists}]"], {"placement": {"tolerations": [{"operator": "Exists"}]}}),
        (["gpus=8", "gpus=16"], {"gpus": 16}),
        (
            ["gpus=null,env.A=True,env.B=007,image=1.10"],
            {"gpus": None, "env": {"A": "true", "B": "007"}, "image": "1.10"},
        ),
        ([], {}),
    ],
)
def test_settings_become_values(settings: list[str], values: dict[str, Value]) -> None:
    assert convert_values(FIELDS, parse_settings(settings, {}), {}) == values


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("gpus", "--set gpus has no value."),
        ("gpus=null,env=1", "Environment takes NAME=text, one a line; 1 was given."),
        ("env.a.b=1", "Environment takes one text for each name."),
        ("env.A={x,y}", "Environment takes one text for each name."),
        ("gpus=all", "GPUs must be a whole number; all was given."),
        ("gpu=8", "gpu is not a value of this recipe; did you mean gpus?"),
        (
            "recipe.nccl.start=8G",
            "recipe.nccl.start is not a value of this recipe; recipe.nccl has begin, end, factor, iterations, warmup.",
        ),
        ("end=8G", "end is not a value of this recipe; did you mean recipe.nccl.end?"),
        ("launchers.run.sh=x", "launchers.run.sh is not a value of this recipe."),
        ("zzz=1", "zzz is not a value of this recipe."),
        ("itertions=5", "itertions is not a value of this recipe; did you mean recipe.nccl.iterations?"),
        ("nodez=3", "nodez is not a value of this recipe; did you mean gpus?"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting: str, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        convert_values(FIELDS, parse_settings([setting], {}), {})
    assert raised.value.message == message


def test_settings_are_set_in_the_values_below() -> None:
    below: dict[str, Value] = {"placement": {"tolerations": [{"key": "a"}, {"key": "b"}]}, "env": {"A": "1"}, "gpus": 8}
    tree = parse_settings(["placement.tolerations[1].key=c", "env.B=x"], below)
    assert convert_values(FIELDS, tree, below) == {
        "placement": {"tolerations": [{"key": "a"}, {"key": "c"}]}, "env": {"A": "1", "B": "x"}, "gpus": 8,
    }  # fmt: skip
