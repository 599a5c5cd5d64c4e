"""The control plane: one controller per module, each a port of the real one.

Controllers use only the stored objects and the clock, not HTTP, nor the programs that pods run, which the kubelet runs.
"""
