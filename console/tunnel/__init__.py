"""Tunnels: ports of ranks, from this machine, that follow the rank to its next pod.

From bottom to top: `reach` finds the pod and dials, `engine` listens, `published` lets other processes see and stop
what one of them keeps open, `running` is a tunnel at work, here or in a process of its own, `memory` knows the ports
and profiles of last time, `session` is what the console uses.
"""
