"""Google Cloud beside GKE itself: one module per service, each the only one that imports its client library.

Nothing here is imported before a screen or command of Google's is opened: the libraries take a second to load.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it prints news of connections into the terminal otherwise
