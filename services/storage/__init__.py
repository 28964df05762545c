"""Postgres: the only SQL of the product."""
