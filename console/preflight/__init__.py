"""Preflight checks: what a recipe needs of cluster and project, checked together before a launch."""
