"""The tri-role conversation of one episode."""
