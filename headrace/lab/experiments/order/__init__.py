"""What order costs: by work, by length of an epoch, by selectivity, and on two channels."""
