"""Beam's own words: names of transforms, buffers, classes and windowings in its proto."""
