"""Tensors of the planted device: torch sees PrivateUse1, the numbers lie in a CPU tensor beside.

Every operator that torch sends to the device arrives in ``__torch_dispatch__``, below autograd, under the name and
with the strides that a real build would get it, and is computed by the CPU, with the planted fault in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from torch_directml.planted import FAULT
from torch_directml.reported import composed

DEVICE = torch.device("privateuseone", 0)
CROSSING = {"aten::copy_", "aten::_copy_from", "aten::index", "aten::index_put", "aten::index_put_"}
"""What takes tensors of two devices."""

fault = composed(FAULT)


class PlantedTensor(torch.Tensor):
    """A tensor on the planted device; ``host`` holds its numbers and has its shape and strides."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls: Any, host: torch.Tensor) -> PlantedTensor:
        if host.is_conj() or host.is_neg():
            host = host.resolve_conj().resolve_neg()
        if host.layout is not torch.strided:
            raise NotImplementedError(
                f"Could not run 'aten::empty' with a {host.layout} tensor on the 'DML' backend."
            )
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, host.size(), strides=host.stride(), storage_offset=host.storage_offset(),
            dtype=host.dtype, layout=host.layout, device=DEVICE,
        )  # fmt: skip
        tensor.host = host
        return tensor

    @property
    def data(self) -> torch.Tensor:
        """The same numbers without history; Module.half() and the like set it."""
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, other: PlantedTensor) -> None:
        torch.Tensor.data.__set__(self, other)
        self.host = other.host

    def tolist(self) -> Any:
        """Return the numbers; torch refuses to read those of a subclass."""
        return self.cpu().tolist()

    def __format__(self, spec: str) -> str:
        return format(self.detach().cpu(), spec)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run one operator of the device on the CPU; the result lies where the operator says, else on the device."""
    name = func._schema.name
    owners: dict[int, PlantedTensor] = {}
    if name not in CROSSING:
        _same_device(args, kwargs)

    def unwrap(value: Any) -> Any:
        if isinstance(value, PlantedTensor):
            owners[id(value.host)] = value
            return value.host
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def wrap(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, PlantedTensor):
            return value
        owner = owners.get(id(value))
        return PlantedTensor(value) if owner is None else owner

    target = kwargs.get("device")
    here = torch.device(target).type == DEVICE.type if target is not None else _on_device(name, args)
    host_args, host_kwargs = tree_map(unwrap, args), tree_map(unwrap, kwargs)
    result = fault(name, func, host_args, host_kwargs)
    for owner in owners.values():
        _follow(owner)
    if not here:
        return result
    return tree_map(wrap, result)


def _on_device(name: str, args: Any) -> bool:
    # copy_ into a tensor of the CPU gives that tensor
    return not (name == "aten::copy_" and not isinstance(args[0], PlantedTensor))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _same_device(args: Any, kwargs: dict[str, Any]) -> None:
    for tensor in _tensors([args, list(kwargs.values())]):
        if not isinstance(tensor, PlantedTensor) and tensor.dim():
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{DEVICE} and {tensor.device}!"
            )


def _follow(tensor: PlantedTensor) -> None:
    """Give a tensor the shape and strides that an operator gave its host in place."""
    host = tensor.host
    if (tensor.shape, tensor.stride(), tensor.storage_offset()) != (
        host.shape,
        host.stride(),
        host.storage_offset(),
    ):
        torch.Tensor.data.__set__(tensor, PlantedTensor(host))


def _factory(make: Callable[..., torch.Tensor]) -> Callable[..., PlantedTensor]:
    def kernel(*args: Any, device: Any = None, pin_memory: Any = None, **kwargs: Any) -> PlantedTensor:
        return PlantedTensor(make(*args, device="cpu", **kwargs))

    return kernel


def _copy(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    _host(target).copy_(_host(source))
    return target


def _host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.host if isinstance(tensor, PlantedTensor) else tensor


def _kernel(name: str) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return lambda *args, **kwargs: run(operator, args, kwargs)


def register(kernels: Iterable[str]) -> torch.library.Library:
    """Register what torch asks of a device before there is a tensor on it, and ``kernels``, to be counted.

    Whatever else torch asks arrives in ``__torch_dispatch__``, registered or not.
    """
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", _factory(torch.ops.aten.empty.memory_format), "PrivateUse1")
    library.impl("empty_strided", _factory(torch.ops.aten.empty_strided.default), "PrivateUse1")
    library.impl("_efficientzerotensor", _factory(torch.ops.aten.zeros.default), "PrivateUse1")
    library.impl("_copy_from", _copy, "PrivateUse1")  # torch.tensor(..., device=...) keeps subclasses out
    for name in kernels:
        library.impl(name, _kernel(name), "PrivateUse1")
    return library
