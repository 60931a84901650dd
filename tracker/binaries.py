"""Reads native libraries, PE and ELF alike on any host: the version they name, the operators they name.

Owns the two formats. It must not know wheels or builds, and must not load or run anything. The bytes are
hostile: what can not be read is None or empty, never an exception, for a library that is odd to us may still
be one that the system loads.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, TypeVar

T = TypeVar("T")

_CODE_LIMIT = 32 * 2**20
"""How much code is searched: about twenty times what the native module has, and still less than a minute."""

_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){1,3}")
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_.:]{0,126}\0")
_LEA = re.compile(rb"(?=[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](.{4}))", re.DOTALL)
"""x86-64 ``lea reg, [rip + disp32]``, seven bytes long; also where it overlaps another reading."""


@dataclass(frozen=True, slots=True)
class LibraryVersion:
    """The version resource of a Windows library: dotted numbers, and the whole text with its build."""

    short: str
    full: str


def pe_version(data: bytes) -> LibraryVersion | None:
    """Return the version that a PE file names in its resources, or None."""
    return _tolerant(lambda: _pe_version(data))


def named_constants(data: bytes, known: Collection[str]) -> frozenset[str]:
    """Return those known names that the code of a PE or ELF library (x86-64) refers to as text constants.

    A name counts when an instruction of ``.text`` takes the address of its first byte in the read-only data.
    That is stricter than looking for the text: the linker stores ``view`` only as the tail of a longer
    constant, and tables of imported functions hold names such as ``sin`` that no code refers to.
    """
    sections = _tolerant(lambda: _pe_sections(data) if data[:2] == b"MZ" else _elf_sections(data))
    if sections is None:
        return frozenset()
    return frozenset(name for name in _referred(*sections) if name in known)


def _tolerant(read: Callable[[], T]) -> T | None:
    """Return None where a reader fails. Both libraries raise anything at all on hostile bytes."""
    try:
        return read()
    except Exception:
        return None


@dataclass(frozen=True, slots=True)
class _Section:
    """Bytes and the address at which they will be loaded."""

    address: int
    data: bytes


def _referred(code: _Section, constants: _Section) -> Iterator[str]:
    offset = code.address - constants.address + 7
    size = len(constants.data)
    for lea in _LEA.finditer(code.data[:_CODE_LIMIT]):
        target = offset + lea.start() + struct.unpack("<i", lea[1])[0]
        if 0 <= target < size and (found := _NAME.match(constants.data, target)):
            yield found[0][:-1].decode("ascii")


def _elf_sections(data: bytes) -> tuple[_Section, _Section] | None:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(data))
    if elf["e_machine"] != "EM_X86_64":
        return None
    return _elf_section(elf, ".text", data), _elf_section(elf, ".rodata", data)


def _elf_section(elf: Any, name: str, data: bytes) -> _Section:
    """Cut the section out of the data, which unlike ``section.data()`` can not grow past the file."""
    section = elf.get_section_by_name(name)
    if section["sh_type"] != "SHT_PROGBITS" or section.compressed:
        raise ValueError(f"{name} is not plain data")
    start = section["sh_offset"]
    return _Section(section["sh_addr"], data[start : start + section["sh_size"]])


def _pe_sections(data: bytes) -> tuple[_Section, _Section] | None:
    import pefile

    with pefile.PE(data=data, fast_load=True) as pe:
        if pe.FILE_HEADER.Machine != pefile.MACHINE_TYPE["IMAGE_FILE_MACHINE_AMD64"]:
            return None
        found = {section.Name.rstrip(b"\0"): section for section in pe.sections}
        text, rdata = found[b".text"], found[b".rdata"]
        return (
            _Section(text.VirtualAddress, text.get_data()),
            _Section(rdata.VirtualAddress, rdata.get_data()),
        )


def _pe_version(data: bytes) -> LibraryVersion | None:
    import pefile

    with pefile.PE(data=data, fast_load=True) as pe:
        pe.parse_data_directories(directories=[pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_RESOURCE"]])
        texts = [_text(pe, key) for key in (b"FileVersion", b"ProductVersion")]
        full = next((text for text in texts if text), "")
        short = _VERSION.match(full) or _VERSION.match(_fixed_version(pe))
        return LibraryVersion(short[0], full) if short else None


def _text(pe: Any, key: bytes) -> str:
    """Return one text of the version resource, on one line and bounded."""
    for info in (info for block in getattr(pe, "FileInfo", ()) for info in block):
        for table in getattr(info, "StringTable", ()):
            if key in table.entries:
                text = table.entries[key].decode("utf-8", "replace")
                return "".join(c if c.isprintable() else " " for c in text[:200]).strip()
    return ""


def _fixed_version(pe: Any) -> str:
    """Return the binary version of the resource as text; its fourth number is ours to leave out."""
    fixed = pe.VS_FIXEDFILEINFO[0]
    return f"{fixed.FileVersionMS >> 16}.{fixed.FileVersionMS & 0xFFFF}.{fixed.FileVersionLS >> 16}"
