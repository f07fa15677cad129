"""The HiPS step: a version of a catalog as a progressive catalogue, which Aladin shows."""
