"""Histograms of rows per pixel, and the plan of leaves made of them: numpy, no I/O."""
