"""Tells torch's C++ that there is one device of the type PrivateUse1, without a compiler.

The autograd engine asks the device guard of a device's type how many devices there are, and gives each a thread.
A real build brings its guard as a C++ object. Here it is the CPU's guard, which does nothing, with two of its
virtual functions replaced: its type, and the number of devices. Their places are those of
c10/core/impl/DeviceGuardImplInterface.h in torch 2.4.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

CPU, PRIVATE_USE_1, DEVICE_TYPES = 0, 20, 21  # c10/core/DeviceType.h
TYPE_AT, STREAM_AT, DEFAULT_STREAM_AT, COUNT_AT, FUNCTIONS = (
    0,
    5,
    6,
    14,
    22,
)  # places in the table of virtual functions, with both destructors

_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_REGISTER = "_ZN3c104impl24DeviceGuardImplRegistrarC1ENS_10DeviceTypeEPKNS0_24DeviceGuardImplInterfaceE"
_Answer = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)

_kept: list[object] = []
"""What C++ holds pointers to."""


def register() -> None:
    """Register a guard for PrivateUse1; its device 0 can be used afterwards."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    registry = (ctypes.c_void_p * DEVICE_TYPES).in_dll(library, _REGISTRY)
    address = registry[CPU]
    if address is None or registry[PRIVATE_USE_1] is not None:
        raise ImportError("this torch has no guard for the CPU, or another build is there already")
    table = ctypes.cast(address, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    functions = (ctypes.c_void_p * FUNCTIONS)(*table[:FUNCTIONS])
    own_type, count = _Answer(lambda this: PRIVATE_USE_1), _Answer(lambda this: 1)
    functions[TYPE_AT] = ctypes.cast(own_type, ctypes.c_void_p).value
    functions[COUNT_AT] = ctypes.cast(count, ctypes.c_void_p).value
    functions[DEFAULT_STREAM_AT] = functions[STREAM_AT]  # the CPU's refuses the first
    guard = ctypes.c_void_p(ctypes.addressof(functions))  # an object that is nothing but its table
    _kept.extend((functions, own_type, count, guard))
    this = ctypes.c_byte()
    library[_REGISTER](ctypes.byref(this), ctypes.c_int8(PRIVATE_USE_1), ctypes.byref(guard))
