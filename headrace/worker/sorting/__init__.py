"""Elements that wait for their turn: the input of a ParDo in the order of event time."""
