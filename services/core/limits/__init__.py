"""How often a model may be asked, and when it is left alone: rules without a clock or a database of their own."""
