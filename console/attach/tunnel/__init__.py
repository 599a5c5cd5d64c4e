"""Tunnels: ports of ranks, from this machine, that follow the rank to its next pod."""
