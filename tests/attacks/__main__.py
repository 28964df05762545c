"""``python -m tests.attacks [--quick] [BACKEND]``: one JSON document, exit status 1 when an attack succeeded."""

from __future__ import annotations

import json
import sys

from services.sandbox.opening import BACKENDS
from tests.attacks.battery import attack_all

named = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
report = attack_all(named or BACKENDS, quick="--quick" in sys.argv)
print(json.dumps(report.document(), indent=1))  # noqa: T201
sys.exit(1 if report.successes() else 0)
