"""Access to running pods: SSH, tunnels, file copies, commands in many ranks."""
