"""The opening scene: machines, queues, and a day of jobs that the real controllers play through before it goes live."""
