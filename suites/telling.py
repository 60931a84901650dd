"""Which of many checks are worth keeping for ever: all that the judge may object to, and a few others.

The judge's limits are repeated here, because a suite does not import the tracker; a test holds the two together.
Whoever changes a limit judges old checks anew, and what was left out was nearer to the CPU than what was kept.
Standard library only.
"""

from __future__ import annotations

import math
from typing import Any, Dict

Check = Dict[str, Any]

# rtol and atol per dtype, and what the noise is multiplied by: tracker/numbers.py.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
NOISE_FACTOR = 8.0
ODD = ("missing", "want", "nan", "inf", "mismatched", "zeros", "repeat_device", "repeat_reference")
"""What is never left out, whatever the errors are."""
MOST = 40
"""A build that gets everything wrong need not say so a thousand times."""


def excess(check: Check) -> float:
    """Return how far a check is from exact: more than 1 is beyond the judge's limit, infinite where it is odd."""
    if any(name in check for name in ODD):
        return math.inf
    rtol, atol = TOLERANCES.get(check.get("dtype", ""), (0.0, 1e-7))
    allowed = atol + NOISE_FACTOR * check.get("noise", 0.0)
    return max((error / (allowed + rtol * size) for size, error in check.get("worst", ())), default=0.0)


def telling(checks: list[Check], quiet: int = 6) -> tuple[list[Check], int]:
    """Return the checks worth keeping in their order, and how many are left out.

    Kept are those beyond their limit or odd, of more than 40 the first 40, and of the others the ``quiet`` ones with
    the largest errors: those that a tighter limit would meet first.
    """
    far = [excess(check) for check in checks]
    loud = [at for at, value in enumerate(far) if value > 1]
    rest = sorted((at for at, value in enumerate(far) if value <= 1), key=lambda at: -far[at])
    chosen = sorted({*loud[:MOST], *rest[:quiet]})
    return [checks[at] for at in chosen], len(checks) - len(chosen)
