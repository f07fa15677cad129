"""What HATS readers need beside the leaf files: property files, coverage, the picture of the sky."""
