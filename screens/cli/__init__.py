"""Plain commands: everything a screen shows, without a terminal, as a table or as JSON."""
