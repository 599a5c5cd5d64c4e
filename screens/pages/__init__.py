"""Pages a person can open, one a module."""
