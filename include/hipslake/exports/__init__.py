"""Tables on their way out of a catalog: one Parquet, CSV or FITS file, whole or not at all."""
