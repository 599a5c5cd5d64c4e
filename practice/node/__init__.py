"""What a machine of the practice cluster does for its pods: logs, commands, ports, an SSH server, stand-ins."""
