"""Logs of jobs: followed, stored, filtered, redacted, put in order (`log_segment`, `merged_text`, `log_cursor`)."""
