"""The data engine: events made on a schedule and queued outside of the system that is measured."""
