"""One case: the samples of an operator in turn, on the CPU and on the device, until the time is up.

What the CPU refuses is no finding. What the device raises is kept until the other samples have been seen, and
raised then, with what was measured as its attribute ``measures``.
"""

from __future__ import annotations

import time
import zlib
from typing import Any, Callable, Iterator

import torch

from suites import comparing
from suites.context import Inconclusive
from suites.operators import database, gradients, inplace, moving, reference, special, statistics
from suites.operators.reference import Reference
from suites.operators.samples import Chosen, Sample, choose, relaid
from suites.telling import telling

SAMPLES, SECONDS = 8, 10.0
"""What holds where the settings say nothing."""
_MOST_FAILURES = 3
_MOST_RANDOM = 3
"""Samples of a random operator whose distribution is looked at: it takes many calls."""
_MOST_EQUAL = 4
"""Checks of which nothing but a small error is to be said that are sent; the rest are counted."""


class Skip(Exception):
    """One sample can say nothing; the text is the fact that counts it."""


class Run:
    """What forward and backward cases share. ``measures`` runs everything."""

    gradient = False

    def __init__(self, context: Any, op: str, dtype: str) -> None:
        self.name = op
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.operator = self._operator(op, dtype)
        self.device = context.device()
        self.seed = zlib.crc32(f"{op}/{dtype}".encode()) % 2**31
        self.most = int(context.options.get("samples") or SAMPLES)
        self.seconds = float(context.options.get("operator_seconds") or SECONDS)
        self.checks: list[dict[str, Any]] = []
        self.statistics: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self.failures: list[Exception] = []

    def _operator(self, op: str, dtype: str) -> Any:
        found = database.operators().get(op)
        if found is None:
            raise Inconclusive(
                "skipped", "not-in-this-torch", f"torch {torch.__version__} has no OpInfo {op!r}"
            )
        if self.dtype not in self._dtypes(found):
            raise Inconclusive(
                "skipped", "not-for-this-dtype", f"{op} has no {dtype} in torch {torch.__version__}"
            )
        return found

    def _dtypes(self, operator: Any) -> set[Any]:
        return database.forward_dtypes(operator)

    def one(self, sample: Sample) -> None:
        """Compute one sample on both and keep the checks."""
        raise NotImplementedError

    def derived(self, sample: Sample) -> Iterator[Callable[[], None]]:
        """Yield further steps that are made of the first sample."""
        for other in relaid(sample):
            yield lambda other=other: self.one(other)  # type: ignore[misc]

    def measures(self) -> dict[str, Any]:
        """Run the samples within the budget and return what they gave."""
        started = time.perf_counter()
        with comparing.on_cpu():
            chosen = choose(
                self.operator,
                self.dtype,
                self.most,
                gradient=self.gradient,
                seed=self.seed,
                seconds=self.seconds / 2,
            )
        if not chosen.samples:
            raise Inconclusive("skipped", "no-samples", f"{self.name} has no sample of a bearable size")
        done = self._until(self._steps(chosen), started + self.seconds)
        self._account(chosen, done)
        return self._result()

    def _steps(self, chosen: Chosen) -> Iterator[Callable[[], None]]:
        """Yield the first sample, what is made of it, and then the others: time may be up early."""
        first = chosen.samples[0]
        yield lambda: self.one(first)
        yield from self.derived(first)
        for sample in chosen.samples[1:]:
            yield lambda sample=sample: self.one(sample)  # type: ignore[misc]

    def _until(self, steps: Iterator[Callable[[], None]], deadline: float) -> int:
        done = 0
        for step in steps:
            if done and (time.perf_counter() > deadline or len(self.failures) >= _MOST_FAILURES):
                self.facts["stopped"] = "failures" if self.failures else "seconds"
                break
            done += 1
            try:
                step()
            except Skip as reason:
                self._count(str(reason))
            except Exception as error:
                self.failures.append(error)
        return done

    def _count(self, fact: str) -> None:
        self.facts[fact] = self.facts.get(fact, 0) + 1

    def _account(self, chosen: Chosen, done: int) -> None:
        """Note how much of what there was has been looked at."""
        self.facts.update(samples=len(chosen.samples), of=chosen.of, steps=done)
        stopped = self.facts.pop("stopped", None)
        capped = stopped or chosen.ended or ("samples" if len(chosen.samples) < chosen.of else "")
        if capped:
            self.facts["capped_by"] = capped
        if chosen.made_as != str(self.dtype)[6:]:
            self.facts["samples_made_as"] = chosen.made_as

    def _result(self) -> dict[str, Any]:
        measures: dict[str, Any] = {"checks": telling(self.checks, _MOST_EQUAL)[0], "facts": self.facts}
        self.facts["checked"] = len(self.checks)
        if self.statistics:
            measures["statistics"] = self.statistics
        if self.failures:
            error = self.failures[0]
            self.facts["failures"] = len(self.failures)
            error.measures = measures  # type: ignore[attr-defined]
            raise error
        if not self.checks and not self.statistics:
            raise self._nothing()
        return measures

    def _nothing(self) -> Inconclusive:
        refused = self.facts.get("cpu_refused")
        if refused:
            return Inconclusive("no-reference", "cpu-refused", str(self.facts.get("cpu_error")))
        for fact in ("random", "never_on_device", "not_differentiable", "nothing_to_compare"):
            if self.facts.get(fact):
                return Inconclusive("skipped", fact.replace("_", "-"), f"{self.name}: every sample is {fact}")
        return Inconclusive("skipped", "no-samples", f"{self.name}: nothing was run")

    def refer(self, call: Callable[[Any], Any], bundle: Any) -> Reference:
        """Return the CPU's answer; Skip where it has none."""
        try:
            found = reference.refer(
                call, bundle, self.dtype, self.seed, truth=self.name not in special.NO_TRUTH
            )
        except Exception as error:
            self.facts["cpu_error"] = f"{type(error).__name__}: {error}"[:300]
            raise Skip("cpu_refused") from error
        if found.rounded:
            self.facts["reference"] = "float32, rounded"
        return found

    def on_device(self, call: Callable[[Any], Any], bundle: Any, seed: int | None = None) -> Any:
        """Compute on the device from a fresh copy of the inputs."""
        inputs = moving.moved(bundle, self.device)
        if not moving.on_device(inputs, self.device):
            raise Skip("never_on_device")
        torch.manual_seed(self.seed if seed is None else seed)
        return call(inputs)

    def compare(
        self,
        name: str,
        got: Any,
        found: Reference,
        again: Any,
        *,
        role: str = "output",
        anywhere: bool = False,
    ) -> None:
        """Keep a check of every tensor and number of the reference. ``anywhere``: not bound to the device."""
        have, second = dict(comparing.leaves(got)), dict(comparing.leaves(again))
        exact, repeated = dict(comparing.leaves(found.truth)), dict(comparing.leaves(found.again))
        for place, want in comparing.leaves(found.want):
            mine = have.get(place)
            bound = isinstance(mine, torch.Tensor) and not anywhere
            self.checks.append(
                comparing.check(
                    _label(name, place),
                    mine,
                    want,
                    truth=reference.usable(exact.get(place), want),
                    again=_if_like(second.get(place), mine),
                    reference_again=repeated.get(place),
                    role=role,
                    device=self.device.type if bound else "",
                )
            )


def _label(name: str, place: str) -> str:
    return name if place == "result" else f"{name}{'' if place.startswith('[') else '.'}{place}"


def _if_like(second: Any, first: Any) -> Any:
    return second if isinstance(second, torch.Tensor) == isinstance(first, torch.Tensor) else None


class ForwardRun(Run):
    """Results of an operator, of its samples and of the first one laid out otherwise and in place."""

    def one(self, sample: Sample) -> None:
        """Compute one sample; a random one by its statistics."""
        call = _forward(self.operator)
        found = self.refer(call, sample.inputs)
        if not comparing.leaves(found.want):
            raise Skip("nothing_to_compare")
        why = special.SHAPE_ONLY.get(self.name)
        if found.random and not why:
            self._random(sample, call, found)
            return
        got = self.on_device(call, sample.inputs)
        again = self.on_device(call, sample.inputs)
        parts = special.DETERMINED.get(self.name)
        if why or parts:
            self.checks.extend(shapes(sample.name, got, found.want, self.device))
        if why:
            self.facts["shape_only"] = why
        elif parts:
            self._parts(sample, parts, got, again, found)
        else:
            self.compare(sample.name, got, found, again)

    def _parts(self, sample: Sample, parts: Any, got: Any, again: Any, found: Reference) -> None:
        def part(result: Any) -> Any:
            home = comparing.nested(lambda tensor: tensor.detach().cpu(), result)
            return None if result is None else parts(home, sample.inputs)

        whole = Reference(part(found.want), part(found.again), part(found.truth), False, found.rounded)
        self.compare(sample.name, part(got), whole, part(again), anywhere=True)

    def _random(self, sample: Sample, call: Callable[[Any], Any], found: Reference) -> None:
        self._count("random")
        got = self.on_device(call, sample.inputs)
        self.checks.extend(shapes(sample.name, got, found.want, self.device))
        if self.facts["random"] > _MOST_RANDOM:
            return
        run, _ = reference.at_dtype(call, sample.inputs, self.dtype, self.seed)
        self.statistics.extend(
            statistics.compared(
                sample.name,
                lambda seed: self.on_device(call, sample.inputs, seed),
                run,
                self.seed,
            )
        )

    def derived(self, sample: Sample) -> Iterator[Callable[[], None]]:
        """Yield the other layouts, and the operator in place."""
        yield from super().derived(sample)
        for other, call in inplace.variants(self.operator, sample):
            yield lambda other=other, call=call: self._in_place(other, call)  # type: ignore[misc]

    def _in_place(self, sample: Sample, call: Callable[[Any], Any]) -> None:
        found = self.refer(call, sample.inputs)
        if found.random or special.SHAPE_ONLY.get(self.name):
            raise Skip("not_determined")
        got = self.on_device(call, sample.inputs)
        self.compare(sample.name, got, found, self.on_device(call, sample.inputs))


def _forward(operator: Any) -> Callable[[Any], Any]:
    def call(inputs: Any) -> Any:
        first, args, kwargs = inputs
        return operator(first, *args, **kwargs)

    return call


def shapes(name: str, got: Any, want: Any, device: Any) -> list[dict[str, Any]]:
    """Return the checks of a result whose values are not determined: shape, dtype and device only."""
    have = dict(comparing.leaves(got))
    keep = ("name", "role", "shape", "dtype", "device", "want", "count", "missing")
    found = []
    for place, leaf in comparing.leaves(want):
        mine = have.get(place)
        bound = device.type if isinstance(mine, torch.Tensor) else ""
        check = comparing.check(_label(name, place), mine, leaf, device=bound)
        found.append({key: check[key] for key in keep if key in check})
    return found


class BackwardRun(Run):
    """Gradients of an operator for each kind of upstream gradient."""

    gradient = True

    def _dtypes(self, operator: Any) -> set[Any]:
        return database.backward_dtypes(operator)

    def _operator(self, op: str, dtype: str) -> Any:
        broken = special.broken_gradient(op, torch.__version__)
        if broken:
            raise Inconclusive("no-reference", *broken)
        return super()._operator(op, dtype)

    def one(self, sample: Sample) -> None:
        """Compute the gradients of one sample on both."""
        call = gradients.backward(self.operator, sample.process)
        bundle = (sample.inputs, self._upstreams(sample))
        found = self.refer(call, bundle)
        if found.random:
            raise Skip("random")
        got = self.on_device(call, bundle)
        again = self.on_device(call, bundle)
        lost = got.pop("lost")
        for place, why in lost.items():
            self.checks.append(comparing.missing(_label(sample.name, place), why, part=place))
        for kind, wanted in found.want.items():
            self._kind(sample.name, kind, wanted, got, again, found, bool(lost))

    def _upstreams(self, sample: Sample) -> Any:
        plain = _forward(self.operator)
        try:
            outputs = gradients.probe(
                lambda inputs: sample.process(plain(inputs)), sample.inputs, self.dtype, self.seed
            )
            given = gradients.upstreams(outputs, self.seed)
        except Exception as error:
            self.facts["cpu_error"] = f"{type(error).__name__}: {error}"[:300]
            raise Skip("cpu_refused") from error
        if not given or not gradients.wanted(sample.inputs):
            raise Skip("not_differentiable")
        return given

    def _kind(
        self, name: str, kind: str, wanted: Any, got: Any, again: Any, found: Reference, lost: bool
    ) -> None:
        if kind == "lost":
            return
        missing = [place for place in wanted if place not in got[kind]]
        for place in missing if not lost else ():
            self.checks.append(comparing.missing(f"{name}/{kind}/{place}", "grad is None", part=place))
        there = {place: value for place, value in wanted.items() if place not in missing}
        part = Reference(there, found.again[kind], (found.truth or {}).get(kind), False, found.rounded)
        self.compare(f"{name}/{kind}", got[kind], part, again[kind], role="gradient")
