"""Ways into running pods: SSH, tunnels, files, commands in many ranks."""
