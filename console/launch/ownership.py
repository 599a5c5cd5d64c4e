"""Proof that a job belongs to the person who looks.

The API server keeps no creator. Whoever creates a job writes the label of its owner: that is shown, and nothing more.
"""

from __future__ import annotations

from enum import StrEnum


class Proof(StrEnum):
    """The strongest that there is, these from the strongest on."""

    LAUNCHED = "launched"  # the run history of this account has the launch of that very object
    PROTECTED = "protected"  # its label, which the cluster refuses from everybody else, as config.toml says
    AGREED = "agreed"  # its label, and the person's answer to the question
    LABEL = "label"  # its label alone
    NONE = ""

    @property
    def may_look(self) -> bool:
        """Whether something may run in its pods, or be read where they say, that nobody asks for at that moment."""
        return self not in {Proof.LABEL, Proof.NONE}

    def doubt(self, owner: str) -> str:
        """Why its pods are not looked into unasked."""
        if self is Proof.LABEL:
            return "its label says that it is yours, but the run history of this account does not know it"
        return f"{owner or 'somebody else'} launched it"
