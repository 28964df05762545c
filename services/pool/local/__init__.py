"""Pools that run on this machine and speak OpenAI's protocol: simulated models and replayed recordings."""
