"""The control plane: one controller per module, each a port of the real one.

They know only the stored objects and the clock: never HTTP, never the programs that pods run (those are the kubelet's).
"""
