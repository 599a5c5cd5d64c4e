"""Copies between this machine and pods, and what is needed for them on both sides.

A copy grows under a temporary name beside its final one, is compared with the original, and then renamed. What was
copied when it breaks off is kept, found by the next try and gone on with.
"""
