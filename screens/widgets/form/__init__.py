"""The form of a launch: fields, cursor, editors, and the views beside it."""
