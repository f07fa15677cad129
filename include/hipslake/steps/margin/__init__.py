"""The margin step: rows near the borders of leaves, filed under the pixels that they are near to."""
