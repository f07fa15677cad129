"""Tables: what every table format shares, and each format in a package of its own."""
