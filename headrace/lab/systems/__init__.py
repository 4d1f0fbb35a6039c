"""The systems that answer questions, behind the same verbs."""
