"""What columns bring: the same pipelines over Arrow rows, with columns and without."""
