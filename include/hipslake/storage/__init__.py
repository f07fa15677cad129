"""The one door to files and objects: writes that are whole or not at all, and requests that end in time."""
