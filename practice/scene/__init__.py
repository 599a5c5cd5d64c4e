"""The opening scene: machines, queues, and a day of jobs that the real controllers replay before the cluster opens."""
