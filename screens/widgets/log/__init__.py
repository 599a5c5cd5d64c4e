"""The log view: lines, filter, search."""
