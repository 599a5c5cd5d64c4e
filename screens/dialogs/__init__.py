"""Dialogs with typed answers, and the flows that use them."""
