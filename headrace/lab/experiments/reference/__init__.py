"""Makes the reference answers that are shipped with the project."""
