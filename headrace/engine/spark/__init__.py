"""Spark itself: its Java and jars, its session, the user's packages on it, the plan it runs."""
