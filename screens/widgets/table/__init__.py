"""The table, its columns and rows, and the tables of single kinds."""
