#!/usr/bin/env python3
"""Entry point of the command line; see ``services.cli``."""

from services.cli.main import main

if __name__ == "__main__":
    main()
