"""Environment settings and campaign files, checked once at the edge."""
