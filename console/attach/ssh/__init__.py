"""SSH to ranks by name: ssh config entries, verified host keys, the person's key, and diagnosis."""
