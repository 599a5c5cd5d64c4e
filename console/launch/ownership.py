"""The proof that a job belongs to the person at the console.

The API server stores no creator, and the owner label is written by whoever creates the job: it is shown, but proves
nothing by itself. `Proof` lists the evidence that counts.
"""

from __future__ import annotations

from enum import StrEnum


class Proof(StrEnum):
    """The evidence that a job is the person's own, strongest first; NONE without any."""

    LAUNCHED = "launched"  # the run history of this account has the launch of that very object
    PROTECTED = "protected"  # its label, which the cluster refuses from everybody else, as config.toml says
    AGREED = "agreed"  # its label, and the person's answer to the question
    LABEL = "label"  # its label alone
    NONE = ""

    @property
    def may_look(self) -> bool:
        """Whether the pods and folders of the job may be inspected without asking the person."""
        return self not in {Proof.LABEL, Proof.NONE}

    def why_not(self, owner: str) -> str:
        """The reason why the pods of `owner`'s job are not inspected without asking."""
        if self is Proof.LABEL:
            return "its label says that it is yours, but the run history of this account does not know it"
        return f"{owner or 'somebody else'} launched it"
