"""Results of nccl-tests: parsed, compared with what A4 should reach, stored, exported."""
