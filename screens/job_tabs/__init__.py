"""Tabs of a job's page, one a module; `TABS` in `screens.pages.job` says which there are and in which order."""
