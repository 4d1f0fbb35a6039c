"""Which rows of a DataFrame workers read themselves: of files, topics and Python's readers."""
