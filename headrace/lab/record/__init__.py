"""What came of a load: the record that systems fill and experiments read."""
