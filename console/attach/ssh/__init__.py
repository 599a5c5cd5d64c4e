"""SSH to the ranks of a job by name: host entries, checked host keys, the person's key, and a doctor."""
