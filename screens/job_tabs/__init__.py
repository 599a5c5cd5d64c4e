"""One module per tab of a job's page; `screens.pages.job` lists them in order."""
