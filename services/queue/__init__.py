"""Celery: names, messages, the application, publishing."""
