"""The API server of the practice cluster: HTTP, watches, tables, accounts, and the streams into pods.

It translates requests to calls on `objects`, and alone decides the format of responses.
"""
