"""Tabs of a job's page, one a module; `registry` says which there are and in which order."""
