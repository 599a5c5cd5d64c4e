"""Results of nccl-tests: parsed, compared with the A4 reference, stored, exported."""
