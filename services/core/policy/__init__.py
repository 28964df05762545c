"""The trained part: a parameter vector, its layout, and how it turns a state into an action."""
