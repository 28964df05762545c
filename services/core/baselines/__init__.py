"""What a trained coordinator is compared with: scaffolds of several calls, and routers fitted to labels."""
