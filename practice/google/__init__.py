"""An imitation of Google's services: the real messages over gRPC and HTTP on loopback.

The practice cluster imports this package only when Google is first requested: the messages take a second to load.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it prints news of connections into the terminal otherwise
