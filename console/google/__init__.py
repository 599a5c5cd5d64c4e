"""Google Cloud for a cluster: login, clusters, node pools, images, storage."""
