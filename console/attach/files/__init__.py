"""Copies files between this machine and pods."""
