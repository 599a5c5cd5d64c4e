"""The table widget with its columns and rows, and the tables of common kinds."""
