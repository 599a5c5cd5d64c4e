"""The services of a practice node for its pods: logs, exec, ports, SSH, and imitations of programs."""
