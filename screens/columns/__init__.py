"""Columns of each kind of row, declared once for page, command table and JSON.

A module for each kind: what a row holds, its cells, and its columns.
"""
