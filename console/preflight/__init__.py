"""Preflight checks: a recipe's requirements of cluster and project, checked together before a launch."""
