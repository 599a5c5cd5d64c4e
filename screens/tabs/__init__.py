"""Tabs of a job's page, a module each; `registry` says which there are and in which order."""
