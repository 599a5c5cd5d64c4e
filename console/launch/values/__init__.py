"""Values of a launch: checked, read from YAML and written to it."""
