"""The programs of pods: scripts of lines and pauses that replay recorded output of real programs.

A program never does the work it prints about, and says so in its first lines.
"""
