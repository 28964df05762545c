"""A trained coordinator in two lines: ``load`` a checkpoint, ``pick`` who acts next in a chat.

Importing this package needs neither torch nor transformers; ``load`` does.
"""

from services.coordinator.chat import as_transcript
from services.coordinator.loading import load
from services.coordinator.picking import Choice, Coordinator, Probabilities

__all__ = ["Choice", "Coordinator", "Probabilities", "as_transcript", "load"]
