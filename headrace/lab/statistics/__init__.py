"""Numbers from samples: percentiles, intervals, differences, the cut of the warm-up."""
