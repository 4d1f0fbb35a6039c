"""The lab's questions as Beam pipelines, a file each."""
