"""What `from hipslake import ...` gives: catalogs and cubes, as a notebook uses them."""
