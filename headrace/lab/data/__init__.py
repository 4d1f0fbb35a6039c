"""Events made by arithmetic: generators, their random numbers, and the files they are logged to."""
