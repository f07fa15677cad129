"""VOTable sources."""
