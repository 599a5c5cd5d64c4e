"""Saved states of a training run: where they are, which are complete, what is wrong with the others."""
