"""Preflight: what a recipe asks of cluster and project, checked together before a launch."""
