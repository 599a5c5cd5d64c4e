"""Plain commands: everything that the screens show, as a table or as JSON."""
