"""From the text of the user's functions to expressions that columns compute."""
