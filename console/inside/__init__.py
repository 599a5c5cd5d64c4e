"""Inside the pods of a watched cluster: one command in many ranks at once, and what a container says of itself."""
