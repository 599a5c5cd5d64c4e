"""Widgets that several screens use; they get attributes from their screen and send it messages."""
