"""The report of runs: one page of HTML that opens anywhere and carries its samples."""
