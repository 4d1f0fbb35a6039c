"""Kills a streaming run again and again, and sees that its output is as if nothing had happened."""
