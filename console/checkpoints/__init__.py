"""Saved states of a training run: their folders, which are complete, and the faults of the others."""
