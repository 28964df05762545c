"""Calls to LLMs: the wall around litellm, the one retry loop, and the pools that run on this machine."""

import os

# litellm reads this when it is first imported; without it the import downloads a price list.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
