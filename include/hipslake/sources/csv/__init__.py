"""CSV sources."""
