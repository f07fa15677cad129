"""HiPS progressive catalogues: which row stands in which tile, and the files that Aladin reads.

Format: IVOA Recommendation HiPS 1.0 (2017-05-19). A tile is a pixel, NESTED, whose file holds the rows in it
that come first and stand in no tile of a lower order.
"""
