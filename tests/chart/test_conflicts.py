"""Where the documents disagree or are wrong, the decision stands in the help of the value it concerns."""

from __future__ import annotations

import pytest

from tests.chart.plans import CATALOGUE

HELP = {field.path: field.description for recipe in CATALOGUE.recipes() for field in CATALOGUE.fields(recipe.id)}
HELP |= {recipe.id: f"{recipe.summary} {recipe.needs}" for recipe in CATALOGUE.recipes()}
DECISIONS = {
    "C01": ("queue", "only one of them passes it on"),
    "C02": ("queue", "a4 or a4-high"),
    "C06": ("interactive", "No test runs by itself"),
    "C07": ("recipe.train.output", "the script writes here only"),
    "C08": ("storage.nfs.claim", "Mounted only when named"),
    "C09": ("keepAlive", "launchers ignore it"),
    "C10": ("ssh.publicKey", "disagree whether it is for you or for the pods"),
    "C11": ("env", "always text"),
    "C12": ("image", "plain base images do"),
    "C13": ("recipe.model.exported", "-mcore-te-to-hf, which nothing writes"),
    "C14": ("connectivity", "fixed 16 ranks"),
    "C15": ("recipe.skip.data", "No document's recipe builds it"),
    "C16": ("recipe.train.recompute", "writes false where the script wants none"),
    "C17": ("recipe.train.globalBatch", "fits 8 GPUs only"),
    "C18": ("recipe.skip.environment", "here every pod is prepared"),
    "C19": ("recipe.train.flash", "on B200 it must be on"),
    "C20": ("recipe.workspace", "even when Lustre is mounted at /lustre"),
    "C21": ("recipe.skip.conversion", "found by its marker file"),
    "C22": ("recipe.workspace", "a folder for each run"),
    "C23": ("ssh.publicKey", "2222 counts"),
    "C24": ("discovery", "the release's own namespace"),
    "C25": ("recipe.swift.version", "B200 needs 12.8"),
    "C26": ("storage.gcs", "hostNetworkPodKSA"),
    "C27": ("restarts", "succeeded never starts again"),
    "C28": ("network.subnetworks", "misspell this key"),
    "C29": ("placement.targetNodes", "both hold"),
    "C30": ("storage.nfs.claim", "stays when the job is stopped"),
    "C31": ("network.gib.image", "not a version alone"),
    "C33": ("placement.accelerator", "nvidia-b200 on A4"),
    "C35": ("recipe.model.folder", "qwen-ckpts/ and ckpts/huggingface/"),
    "C37": ("storage.nfs.instance", "empty: plain NFS"),
    "C38": ("recipe.swift.packing", "Left out below 3.8"),
    "C39": ("swift-sft", "asks for 4 and uses 2"),
    "C40": ("storage.nfs.location", "call it region"),
    "C41": ("network.nccl.debug", "The recipes differ"),
    "C42": ("restarts", "one document promises recovery"),
    "C43": ("network.gib.image", "not as a sidecar"),
}
NO_VALUE = {
    "C03": "the oldest version of GKE is a check of the cluster",
    "C04": "what a cluster must have is a check of the cluster",
    "C05": "releases are found in the cluster, by their own names",
    "C32": "building images is no launch",
    "C34": "chart and launchers come with the console: nothing is cloned",
    "C36": "which pod prints progress is found out by reading them all",
}
"""Decided without a value that could say so."""


def test_every_conflict_is_decided() -> None:
    assert sorted(DECISIONS | NO_VALUE) == [f"C{number:02d}" for number in range(1, 44)]


@pytest.mark.parametrize("conflict", DECISIONS)
def test_the_help_says_how(conflict: str) -> None:
    path, words = DECISIONS[conflict]
    assert words in HELP[path]
