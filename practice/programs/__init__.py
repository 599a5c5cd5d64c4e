"""What pods run: scripts of lines and pauses that print what the real programs print, from our own recordings.

A program never does the work it prints about, and says so in its first lines.
"""
