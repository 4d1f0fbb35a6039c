"""Where events come from and where rows go, by name."""
