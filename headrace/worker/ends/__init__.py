"""The ends of a plan: rows of DataFrames, files and topics in, columns and files out."""
