"""Reports about listing and choosing devices, WSL, several adapters, meta tensors, parallel training and seeds."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

from suites.bugs.common_b import Measures, Trials, claim, differing, normal, skip
from suites.comparing import check, on_cpu
from suites.context import Context

# --- adapters --------------------------------------------------------------------------------------------


def every_device(context: Context) -> Measures:
    """Devices could not be listed or chosen: the functions for it, and a product on every index, with a name."""
    api = _api(context)
    lacking = [name for name in ("device_count", "device_name", "default_device") if not hasattr(api, name)]
    found: Measures = {"checks": [], "claims": [claim("functions that are missing", lacking, [])]}
    if lacking:
        return found
    numbers = normal(8)
    for index in range(api.device_count()):
        device = _at(context, api, index)
        put = numbers.to(device)
        found["checks"].append(check(f"device {index}", put * 2.0, numbers * 2.0, device=device.type))
        nameless = not str(api.device_name(index)).strip("\0 ")
        found["claims"].append(claim(f"device {index} has no name", nameless, False))
    return found


def between_adapters(context: Context) -> Measures:
    """A copy from one adapter straight to another gave zeros: it must give what a copy through the CPU does."""
    api = _api(context)
    count = api.device_count() if hasattr(api, "device_count") else 1
    if count < 2:
        raise skip("one-adapter", "it takes two adapters")
    numbers = normal(5)
    first, second = _at(context, api, 0), _at(context, api, 1)
    off = {}
    for name, start, end in (("0 to 1", first, second), ("1 to 0", second, first)):
        off[name] = differing(numbers.to(start).to(end), numbers)
    return {"claims": [claim(f"{name}: elements that differ", many, 0) for name, many in off.items()]}


def _api(context: Context) -> Any:
    """Return the module that lists devices; the fork keeps it within torch."""
    module = context.build()
    context.device()
    if module is None or context.device_kind in ("cpu", "cuda"):
        raise skip("not-on-this-device", "the report is about the functions of the DirectML packages")
    return getattr(module, "dml", module)


def _at(context: Context, api: Any, index: int) -> torch.device:
    make: Callable[[int], torch.device] = getattr(api, "device", None) or _numbered(context)
    return make(index)


def _numbered(context: Context) -> Callable[[int], torch.device]:
    return lambda index: torch.device(context.device_kind, index)


# --- WSL -------------------------------------------------------------------------------------------------


def first_copy_in_wsl(context: Context) -> Measures:
    """The first copy of one element ran out of memory in WSL."""
    _in_wsl()
    trials = Trials(context)
    trials.compare("copy", lambda tensor: tensor.clone(), torch.tensor([1]), exact=True)
    return trials.measures()


def listing_in_wsl(context: Context) -> Measures:
    """In WSL every copy and ``device_name`` failed as an invalid argument: count, name and a copy."""
    _in_wsl()
    api = _api(context)
    trials = Trials(context)
    trials.claims.append(claim("device_count() is 0", api.device_count() == 0, False))
    trials.claims.append(claim("device_name(0) is empty", not str(api.device_name(0)).strip("\0 "), False))
    trials.compare("copy", lambda tensor: tensor.clone(), torch.tensor([1]), exact=True)
    return trials.measures()


def _in_wsl() -> None:
    try:
        kernel = Path("/proc/version").read_text("utf-8", "replace")
    except OSError:
        kernel = ""
    if "microsoft" not in kernel.lower():
        raise skip("not-wsl", "the report is about the Windows Subsystem for Linux")


# --- meta tensors ----------------------------------------------------------------------------------------


def meta_to_device(context: Context) -> Measures:
    """A meta tensor, which has no data, became zeros on the device: it must raise what the CPU raises."""
    device = context.device()
    with on_cpu():
        want = _raised(torch.device("cpu"))
    return {"claims": [claim("copying out of a meta tensor raises", _raised(device), want)]}


def _raised(device: torch.device) -> str:
    try:
        torch.empty(4, device="meta").to(device).cpu()
    except Exception as error:
        return type(error).__name__
    return "nothing"


# --- parallel --------------------------------------------------------------------------------------------


def data_parallel(context: Context) -> Measures:
    """``DataParallel`` found no ``device_count`` for the device: torch must list as many as the build does.

    Anything but an AttributeError in ``DataParallel`` itself is a fact, for the rule names only that.
    """
    api = _api(context)
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 1):
        raise skip("not-in-this-torch", f"torch {torch.__version__} asks no device of another maker")
    if torch.cuda.is_available():
        raise skip("cuda-first", "torch lists CUDA devices where there are any")
    indices = torch._utils._get_all_device_indices()
    found: Measures = {"checks": [], "claims": [claim("indices", indices, list(range(api.device_count())))]}
    device = context.device()
    with on_cpu():
        module, rows = _linear(), normal(4, 3)
        want = module(rows).detach()
        truth = _linear().double()(rows.double()).detach()
    try:
        got = nn.DataParallel(module.to(device))(rows.to(device)).detach()
        found["checks"].append(check("linear", got, want, truth=truth, device=device.type))
    except AttributeError:
        raise
    except Exception as error:
        found["facts"] = {"refused": f"{type(error).__name__}: {error}"[:300]}
    return found


def distributed(context: Context) -> Measures:
    """Training over processes is not supported: it must be right or clearly refused, here with one process."""
    from torch import distributed as group

    trials = Trials(context)
    if not group.is_available():
        raise skip("not-in-this-torch", "this torch was built without torch.distributed")
    with on_cpu():
        rows, upstream = normal(4, 3), normal(4, 2, seed=1)
        want, truth = (
            _trained(_linear(), rows, upstream),
            _trained(_linear().double(), rows.double(), upstream.double()),
        )

    def parallel() -> list[torch.Tensor]:
        group.init_process_group("gloo", store=group.HashStore(), rank=0, world_size=1)
        module = nn.parallel.DistributedDataParallel(_linear().to(trials.device))
        return _trained(module, rows.to(trials.device), upstream.to(trials.device))

    got = trials.attempt("distributed", parallel)
    if group.is_initialized():
        group.destroy_process_group()
    if got is not None:
        for name, *sides in zip(("output", "weight", "bias"), got, want, truth):
            role = "output" if name == "output" else "gradient"
            device = trials.device.type
            trials.checks.append(check(name, sides[0], sides[1], truth=sides[2], role=role, device=device))
    return trials.measures(raises=False, clear=True)


def _linear() -> nn.Linear:
    module = nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(normal(2, 3, seed=2))
        module.bias.copy_(normal(2, seed=3))
    return module


def _trained(module: nn.Module, rows: torch.Tensor, upstream: torch.Tensor) -> list[torch.Tensor]:
    result = module(rows)
    result.backward(upstream)
    return [result.detach(), *(parameter.grad for parameter in module.parameters())]


# --- seeds -----------------------------------------------------------------------------------------------


def seeds(context: Context) -> Measures:
    """A warning said that a seed has no effect on the device: one seed must give equal numbers, without a warning."""
    device = context.device()
    ones = torch.ones(64).to(device)
    draws: dict[str, Callable[[], torch.Tensor]] = {
        "randn": lambda: torch.randn(8, device=device),
        "rand": lambda: torch.rand(8, device=device),
        "dropout": lambda: F.dropout(ones, p=0.5, training=True),
    }
    claims = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, draw in draws.items():
            first, second, other = (_drawn(draw, seed) for seed in (0, 0, 1))
            claims.append(claim(f"{name} repeats with its seed", differing(first, second) == 0, True))
            claims.append(claim(f"{name} changes with the seed", differing(first, other) > 0, True))
    for warning in caught:  # the worker must hear them too
        warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    said = sorted(
        {str(warning.message)[:200] for warning in caught if "seed" in str(warning.message).lower()}
    )
    return {"claims": [*claims, claim("warnings about seeds", said, [])]}


def _drawn(draw: Callable[[], torch.Tensor], seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return draw().cpu()
