"""The contract: frozen data that every room shares, made of the standard library alone."""
