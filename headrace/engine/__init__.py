"""The driver's side: Spark sessions, the epoch loop, metrics, failures."""
