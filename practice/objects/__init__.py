"""The objects of the practice cluster: what kinds there are, where they are kept, how they are versioned and patched.

Knows no HTTP: the API and the controllers are both written on top of this.
"""
