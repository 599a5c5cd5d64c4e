"""Launches: recipes, forms, forecasts of whether a plan fits, Helm, releases, the history of runs, profiles."""
