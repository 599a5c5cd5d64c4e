"""One question each, with a typed answer."""
