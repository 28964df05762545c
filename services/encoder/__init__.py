"""The small language model that reads the conversation: weights, text to tokens, tokens to one state, and its cache.

Only the modules that say so import torch or transformers; ``catalogue`` is safe everywhere.
"""
