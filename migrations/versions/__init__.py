"""One file per revision, named NUMBER_WORDS.py; the number is the revision."""
