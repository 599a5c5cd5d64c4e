"""The launch form: fields, cursor, editors, and the views beside it."""
