"""The API server of the practice cluster: HTTP, watches, tables, accounts, and the streams into pods.

What a client sends becomes calls on `objects`; what an answer looks like on the wire is decided here and nowhere else.
"""
