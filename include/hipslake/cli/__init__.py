"""The command line `hipslake`: a module for each command, which imports what does the work when it runs."""
