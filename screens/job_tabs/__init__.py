"""One module per tab of a job's page; `TABS` in `screens.pages.job` lists them in order."""
