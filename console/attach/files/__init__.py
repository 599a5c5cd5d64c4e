"""Copies between this machine and pods, and what is needed for them on both sides."""
