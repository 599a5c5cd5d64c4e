"""Tunnels from local ports to ports of ranks, which follow a rank to its next pod."""
