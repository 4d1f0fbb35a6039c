"""What all measuring folders share: the forms of their commands, and a meter of processes."""
