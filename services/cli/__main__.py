"""``python -m services.cli``: the same as manage.py, for children that are started from any folder."""

from services.cli.main import main

main()
