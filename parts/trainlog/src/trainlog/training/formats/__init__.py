"""One module per group of training log formats."""
