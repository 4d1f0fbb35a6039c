"""Reads the user's functions: what they remember, ask of the world, give and keep."""
