"""What travels between supersteps and out of the plan: super tuples, their writers and readers."""
