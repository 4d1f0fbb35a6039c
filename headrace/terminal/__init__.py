"""What a person sees while something runs: lines and tables, and nothing of what they are about."""
