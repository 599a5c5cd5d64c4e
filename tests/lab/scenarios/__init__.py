"""Random scenarios on the real Kueue, and the same on our library of its rules: who is admitted, who goes, and where."""
