"""The control plane: one small controller a module, each a port of what the real one does and says.

They know only the stored objects and the clock: never HTTP, never the programs that pods run (those are the kubelet's).
"""
