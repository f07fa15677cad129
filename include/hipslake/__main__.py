"""`python -m hipslake`: the command line."""

from hipslake.cli.main import run

if __name__ == "__main__":
    run()
