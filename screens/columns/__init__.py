"""Columns of each kind of row, declared once for page, command table and JSON.

Each module has the row class of one kind, the functions that make its cells, and its columns.
"""
