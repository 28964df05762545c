"""What a trained coordinator is compared with: routers that are fitted to labels, and fixed ways to use a pool."""
