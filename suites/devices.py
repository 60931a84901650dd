"""Which device a build offers, and how it is taken: by the adapter's name, never by its index.

The index means different things in different builds. Nothing is computed here. torch comes as a parameter, so
that this module needs the standard library only.
"""

from __future__ import annotations

from typing import Any


class Inconclusive(Exception):
    """The case can say nothing of the build: ``state`` is no-device, no-reference, skipped or infra.

    ``reason`` is a slug that is equal for equal causes, ``message`` is for a person.
    """

    def __init__(self, state: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.state = state
        self.reason = reason


def open_device(
    torch: Any, module: Any, track: dict[str, Any], directx: str, wanted: str
) -> tuple[Any, dict[str, Any]]:
    """Return the torch device of a track and what is known of it.

    ``module`` is the build's own; ``wanted`` names the adapter as ``adapter_names`` does, and nothing stands for
    the build's first. Raises Inconclusive where there is no such device.
    """
    kind = track["device"]
    if kind == "cpu":
        return torch.device("cpu"), {"kind": kind, "name": "cpu"}
    if kind == "cuda":
        return _cuda(torch, wanted)
    if directx != "real":
        raise Inconclusive("no-device", "no-directx", f"DirectX is {directx} on this machine")
    facts = {"kind": kind, "tiled_resources": bool(track.get("tiled_resources", True))}
    if not hasattr(module, "device_count"):  # the fork of 2021: it has one device and cannot list it
        return torch.device(kind), dict(facts, name=kind)
    names = adapter_names(module)
    index = _choose(names, wanted)
    return module.device(index), dict(facts, name=names[index])


def adapter_names(module: Any) -> list[str]:
    """Return the names of the adapters that can be used, in the order of the build's own index."""
    return listed_names(module, int(module.device_count()) if module.is_available() else 0)


def listed_names(module: Any, count: int) -> list[str]:
    """Return the names of the first ``count`` adapters; equal ones are numbered."""
    return numbered([str(module.device_name(index)).strip("\0 \t\r\n") for index in range(count)])


def numbered(names: list[str]) -> list[str]:
    """Return the names with `` #2``, `` #3`` behind those that were there before."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result


def cuda_names(torch: Any) -> list[str]:
    """Return the names of the CUDA devices in the order of their index."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return numbered([str(torch.cuda.get_device_name(index)) for index in range(count)])


def _cuda(torch: Any, wanted: str) -> tuple[Any, dict[str, Any]]:
    names = cuda_names(torch)
    index = _choose(names, wanted)
    return torch.device("cuda", index), {"kind": "cuda", "name": names[index]}


def _choose(names: list[str], wanted: str) -> int:
    if not names:
        raise Inconclusive("no-device", "no-adapter", "the build lists no adapter on this machine")
    if not wanted:
        return 0
    found: int | None = next((at for at, name in enumerate(names) if name == wanted), None)
    if found is None:
        raise Inconclusive(
            "infra", "adapter-missing", f"there is no adapter {wanted!r} now; there are: {', '.join(names)}"
        )
    return found
