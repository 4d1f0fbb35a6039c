"""The job servers of Beam's portable runners: which parts they are made of, and where these lie."""
