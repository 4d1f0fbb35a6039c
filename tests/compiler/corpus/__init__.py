"""Functions in Beam's documented style, each with what a careful reader says of its traits."""
