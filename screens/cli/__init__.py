"""Plain commands: everything a screen shows, without a terminal, as a table or as JSON.

Exit codes: 0 ok, 1 the thing asked for failed, 2 usage, 3 not allowed, 4 cannot reach the cluster; `exec` passes on the
code of the program it ran.
"""
