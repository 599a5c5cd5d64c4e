"""What a node of the practice cluster does for its pods: logs, exec, ports, SSH, and imitations of programs."""
