"""Parses logs: nccl-tests, steps of training programs, failures and py-spy stacks; and redacts secrets in them.

The stub beside this file lists the names; the module of each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
