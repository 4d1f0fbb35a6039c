"""What user code leaves for later: state cells, timers, residuals of splittable DoFns."""
