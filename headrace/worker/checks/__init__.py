"""Compares what plan and columns say with what the user's functions do: `--verify_...`."""
