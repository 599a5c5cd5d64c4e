"""What is seen and pressed: Textual screens and the plain commands. Everything known of a cluster comes from `console`."""
