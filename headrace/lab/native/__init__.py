"""The same questions asked of Spark's own DataFrames, as a Spark engineer would ask them."""
