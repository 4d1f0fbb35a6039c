"""Beam's `SqlTransform` without Java: queries over collections of rows, by DuckDB in the workers.

`queries` reads a query and decides how it may be dealt out, `columns` turns rows into columns and
back, `database` asks DuckDB, `transform` makes steps of a pipeline of it. Needs the extra `sql`;
nothing here is loaded before a pipeline has such a transform.
"""
