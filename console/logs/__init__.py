"""Logs of jobs: followed, stored, merged, filtered, redacted, compared across ranks."""
