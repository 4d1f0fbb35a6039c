"""The checkpoint folder: who may write to it, what counts in it, what is wrong with it."""
