"""Random scenarios on the real Kueue and on our library of its rules: who is admitted, who is evicted, and where."""
