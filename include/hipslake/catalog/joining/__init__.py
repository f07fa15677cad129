"""Two catalogs, stretch of the curve by stretch: cross-match, equi-join, time series."""
