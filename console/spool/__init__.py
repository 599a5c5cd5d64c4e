"""Logs on this machine's disk: kept after their pods are gone, and files of any size, read as lines."""
