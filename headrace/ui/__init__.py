"""The live page of a streaming run: what it shows, what it says is wrong, and its server."""
