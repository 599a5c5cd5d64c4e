"""Arguments of the plain commands."""
