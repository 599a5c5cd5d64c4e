"""What is shown of each kind of row, declared once for the page, the command's table and its JSON; no terminal library.

A module for each kind: what a row holds, its cells, and its columns.
"""
