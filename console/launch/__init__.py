"""Launches: recipes and their forms, whether a plan fits, Helm, releases, runs, profiles."""
