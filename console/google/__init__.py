"""Google Cloud around the cluster: account, clusters, node pools, images, storage."""
