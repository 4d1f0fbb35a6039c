"""One folder a suite: what its events are, its questions as Beam pipelines, how answers compare."""
