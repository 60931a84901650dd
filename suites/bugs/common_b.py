"""What reproducers share: seeded inputs, variants that are tried each by itself, claims, a refused device's health.

Measures only: what a difference means is the tracker's to say.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict

import torch

from suites import comparing
from suites.comparing import check, checks, leaves, on_cpu, to_double
from suites.context import Context, Inconclusive

Measures = Dict[str, Any]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return float32 numbers of the normal distribution on the CPU."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def uniform(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return float32 numbers from 0 to 1 on the CPU."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def claim(name: str, got: Any, want: Any, why: str = "") -> dict[str, Any]:
    """Return a fact that is no tensor, with what it must be."""
    found = {"name": name, "got": got, "want": want}
    return dict(found, why=why) if why else found


def named(dtype: torch.dtype) -> str:
    """Return a dtype's name without torch's."""
    return str(dtype).replace("torch.", "")


def skip(reason: str, why: str) -> Inconclusive:
    """Return what to raise where a report cannot show here."""
    return Inconclusive("skipped", reason, why)


def lacks_float64(error: BaseException) -> bool:
    """Whether a device refused for want of float64, which is a report of its own."""
    return "does not support Double" in str(error)


def differing(got: torch.Tensor | None, want: torch.Tensor) -> int:
    """Return how many elements are not exactly equal, all where the shape is another; NaN is equal to nothing."""
    if got is None or got.shape != want.shape:
        return max(want.numel(), 1)
    return int((got.cpu() != want).sum())


def printed(tensor: torch.Tensor) -> str:
    """Return the text of a tensor without its device and the name of its class."""
    return re.sub(r", device='[^']*'", "", repr(tensor)).replace(type(tensor).__name__, "tensor", 1)


def usable(device: torch.device) -> dict[str, Any]:
    """Return the check that a device computes: after a refusal it must go on."""
    numbers = torch.arange(1.0, 9.0)
    put = numbers.to(device)
    return check("computes on", put * put, numbers * numbers, device=device.type)


class Trials:
    """The variants of one reproducer: each is tried, whatever became of the one before."""

    def __init__(self, context: Context) -> None:
        self.device = context.device()
        self.checks: list[dict[str, Any]] = []
        self.claims: list[dict[str, Any]] = []
        self.refused: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        self._first: Exception | None = None

    def attempt(self, name: str, work: Callable[[], Any]) -> Any:
        """Return what ``work`` gives, or None and a note of what it raised."""
        try:
            return work()
        except Inconclusive:
            raise
        except Exception as error:
            self.refused[name] = f"{type(error).__name__}: {error}"[:300]
            self._first = self._first or error
            return None

    def compare(
        self,
        name: str,
        work: Callable[..., Any],
        *inputs: Any,
        rounded: torch.dtype | None = None,
        exact: bool = False,
    ) -> None:
        """Compare ``work(*inputs)`` on the device with the CPU's, and with float64 where an input has floats.

        ``rounded``: the result's dtype where some torch has no such kernel on the CPU; its float32 result in that
        dtype stands for it there. ``exact``: not an element may differ.
        """
        with on_cpu():
            want = self._wanted(name, work, inputs, rounded)
            truth = want if exact else work(*to_double(_copied(inputs, torch.device("cpu"))))
        if name not in self.left_out:
            self.attempt(name, lambda: self._compared(name, work, inputs, want, truth, exact))

    def _wanted(self, name: str, work: Any, inputs: Any, rounded: torch.dtype | None) -> Any:
        try:
            return work(*_copied(inputs, torch.device("cpu")))
        except RuntimeError:
            if rounded is None:
                raise
        if self.device.type == "cpu":
            self.left_out[name] = "this torch has no such kernel on the CPU"
        wide = comparing.nested(lambda item: item.float() if item.is_floating_point() else item, inputs)
        return comparing.nested(lambda item: item.to(rounded), work(*wide))

    def _compared(self, name: str, work: Any, inputs: Any, want: Any, truth: Any, exact: bool) -> None:
        got = work(*_copied(inputs, self.device))
        found = checks(name, got, want, truth=truth, device=self.device.type)
        if exact:
            have, wanted = dict(leaves(got)), leaves(want)
            for place, leaf in wanted:
                label = name if len(wanted) == 1 else f"{name}{place}"
                off = differing(have.get(place), leaf)
                self.claims.append(claim(f"{label}: elements that differ", off, 0))
        self.checks += found

    def measures(self, raises: bool = True, clear: bool = False, **facts: Any) -> Measures:
        """Return what was measured; raise the first refusal with it, unless a refusal is right too.

        ``clear``: only one that says more than the number of an error is.
        """
        found = {
            "checks": self.checks,
            "claims": self.claims,
            "facts": {"refused": self.refused, "left_out": self.left_out, **facts},
        }
        if raises and self._first is not None:
            self._first.measures = found  # type: ignore[attr-defined]
            raise self._first
        if not raises:
            found["checks"] = [*self.checks, usable(self.device)]
            found["claims"] = [*self.claims, self.silent(clear)]
        return found

    def silent(self, clear: bool = False) -> dict[str, Any]:
        """Return the claim that every refusal has a text, and with ``clear`` one that says something."""
        texts = {name: said.partition(": ")[2] for name, said in self.refused.items()}
        mute = [
            name for name, said in texts.items() if not said or (clear and said.startswith("Unknown error"))
        ]
        return claim("refusals that do not say why", mute, [])


def _copied(inputs: Any, device: torch.device) -> Any:
    """Return copies on the device: what a variant does in place must not reach the next."""
    return comparing.nested(lambda item: item.detach().clone().to(device), inputs)
