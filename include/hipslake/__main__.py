"""`python -m hipslake`: the command line."""

import sys

from hipslake.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
