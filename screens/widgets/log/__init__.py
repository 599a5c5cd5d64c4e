"""The log view: lines, filter and search."""
