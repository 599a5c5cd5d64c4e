"""One format of training logs a module."""
