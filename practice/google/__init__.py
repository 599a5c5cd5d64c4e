"""An imitation of Google's services: the real messages over gRPC and HTTP on loopback.

Nothing here is imported before somebody asks the practice cluster for Google: the messages take a second to load.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it prints news of connections into the terminal otherwise
