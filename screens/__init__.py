"""What is seen and pressed: Textual screens, and the plain commands. What is known comes from `console`."""
