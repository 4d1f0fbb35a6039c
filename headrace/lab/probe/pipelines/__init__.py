"""The lab's questions as Beam pipelines, a file each, and all of them by name."""
