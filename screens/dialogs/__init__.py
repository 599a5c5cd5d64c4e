"""Questions, each with a typed answer, and the flows that ask them."""
