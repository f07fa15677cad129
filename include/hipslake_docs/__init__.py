"""The pictures of the documentation, made from the project itself: `make pictures` draws them anew.

A test makes them too, and holds them against those in docs/.
"""
