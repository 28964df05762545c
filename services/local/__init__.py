"""Private Postgres and Redis, and the supervisor behind ``manage.py up``."""
