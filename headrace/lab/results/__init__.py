"""What a run of the lab leaves behind: a folder with spec, environment, samples and summary."""
