"""Verdicts on hanging and slow ranks, from NCCL RAS, flight recorders, stacks and times of collectives.

The stub beside this file lists the names; the module of each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
