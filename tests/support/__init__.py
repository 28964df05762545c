"""What tests share: real services, builders of rows."""
