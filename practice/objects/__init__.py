"""The objects of the practice cluster: kinds, storage, versions and patches.

Knows no HTTP: the API and the controllers are both written on top of this.
"""
