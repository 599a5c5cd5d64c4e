"""Admission: defaults and validation of objects before they are stored.

The texts are those of the API server's own strategies and of the webhooks of JobSet and Kueue.
"""
