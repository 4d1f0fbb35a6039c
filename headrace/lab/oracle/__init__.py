"""Answers from the logged events: SQL or plain Python, no code shared with the pipelines."""
