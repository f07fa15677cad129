"""Tables on their way out of a catalog: one Parquet, CSV, FITS or VOTable file, whole or not at all."""
