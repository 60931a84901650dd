"""Small wheels and libraries with known contents, made by hand so that tests need no real build."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

CODE_AT, CONSTANTS_AT = 0x1000, 0x2000
PLANTED_DEVICE = Path(__file__).with_name("planted_device") / "torch_directml"
_LEA = b"\x48\x8d\x35"


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    python_tag: str,
    platform_tag: str,
    files: Mapping[str, bytes | str],
    requires: Sequence[str] = (),
) -> Path:
    """Write a valid wheel and return its path. ``python_tag`` is also the ABI, but for ``py3`` (ABI none)."""
    project = name.replace("-", "_")
    abi = python_tag if python_tag.startswith("cp") else "none"
    tag = f"{python_tag}-{abi}-{platform_tag}"
    info = f"{project}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    members = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: planted\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    path = folder / f"{project}-{version}-{tag}.whl"
    write_zip(path, {**members, f"{info}/RECORD": _record(members, f"{info}/RECORD")})
    return path


def make_torch_directml(
    folder: Path,
    version: str,
    python_tag: str = "cp310",
    platform_tag: str = "win_amd64",
    *,
    operators: Sequence[str] = ("add.out", "view"),
    directml: str = "1.13.1+240111-2204.1.dml-1.13.9b0890f",
    api: str = "def device(device_id=None): ...\n",
    requires: Sequence[str] = ("torch==2.4.1",),
) -> Path:
    """Write a wheel with the layout of the real ones: both libraries, and a Python API of two files."""
    windows = platform_tag.startswith("win")
    dll = make_pe(version=directml) if windows else make_elf()
    native = make_pe(operators) if windows else make_elf(operators)
    files: dict[str, bytes | str] = {
        f"torch_directml/{'DirectML.dll' if windows else 'libdirectml.so'}": dll,
        f"torch_directml_native.{python_tag}{'.pyd' if windows else '.so'}": native,
        "torch_directml/__init__.py": "from .device import *\n",
        "torch_directml/device.py": api,
    }
    return make_wheel(folder, "torch-directml", version, python_tag, platform_tag, files, requires)


def make_planted_device(
    folder: Path,
    version: str,
    fault: str = "clean",
    kernels: Sequence[str] = ("add.Tensor",),
    counters: Path | None = None,
    requires: Sequence[str] = ("torch==2.4.1", "torchvision==0.19.1"),
    start: str = "",
) -> Path:
    """Write a wheel of ``tests/planted_device``: a build that computes on the CPU and has a fault, or "one+another".

    It needs real torch. ``kernels`` are what a census counts, beside the few without which there is no device.
    ``counters`` is a folder for a fault that comes and goes ("one~"); ``start`` is source that is run first.
    """
    files: dict[str, bytes | str] = {
        f"torch_directml/{path.name}": path.read_text("utf-8") for path in sorted(PLANTED_DEVICE.glob("*.py"))
    }
    files["torch_directml/planted.py"] = (
        f"FAULT = {fault!r}\nKERNELS = {tuple(kernels)!r}\n"
        f"COUNTERS, VERSION = {str(counters or '')!r}, {version!r}\n"
    )
    if start:
        files["torch_directml/__init__.py"] = start
    return make_wheel(folder, "torch-directml", version, "py3", "any", files, requires)


def write_zip(path: Path, members: Mapping[str, bytes | str]) -> None:
    """Write the members under exactly these names, with a fixed date so that equal wheels are equal files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 9, 14, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)


def make_elf(
    constants: Sequence[str] = (), *, unreferred: Sequence[str] = (), debug: bytes = b"", machine: int = 62
) -> bytes:
    """Return an ELF64 file whose code takes the address of each constant, and holds others nobody refers to.

    A constant that is the tail of an earlier one is merged into it, as the linker does.
    """
    code, data = _code_and_constants(constants, unreferred)
    sections = [(".text", 1, CODE_AT, code), (".rodata", 1, CONSTANTS_AT, data), (".debug_str", 1, 0, debug)]
    names = b"\0" + b"\0".join(name.encode() for name, *_ in sections) + b"\0.shstrtab\0"
    sections.append((".shstrtab", 3, 0, names))
    body, headers = b"", bytes(64)
    for name, kind, address, content in sections:
        place = names.index(name.encode())
        headers += struct.pack(
            "<IIQQQQIIQQ", place, kind, 2, address, 64 + len(body), len(content), 0, 0, 1, 0
        )
        body += content
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    fields = (3, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(sections) + 1, len(sections))
    return ident + struct.pack("<HHIQQQIHHHHHH", *fields) + body + headers


def make_pe(
    constants: Sequence[str] = (), *, unreferred: Sequence[str] = (), version: str = "", fixed: int = 0
) -> bytes:
    """Return a PE32+ DLL with such constants, and with a version resource when a version is given.

    ``version`` is the FileVersion text; ``fixed`` the four numbers of the binary version, 16 bits each.
    """
    code, data = _code_and_constants(constants, unreferred)
    resource = _resource(version, fixed) if version or fixed else b""
    sections = [(b".text", CODE_AT, code), (b".rdata", CONSTANTS_AT, data), (b".rsrc", _RSRC_AT, resource)]
    dos = b"MZ" + bytes(58) + struct.pack("<I", 64)
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, len(sections), 0, 0, 0, 240, 0x2022)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, len(code), 0, 0, CODE_AT, CODE_AT)
    optional += struct.pack(
        "<QIIHHHHHHIIIIHH", 0x180000000, 4096, 512, 6, 0, 0, 0, 6, 0, 0, 0x8000, 1024, 0, 3, 0
    )
    optional += struct.pack("<QQQQII", 0x100000, 0x1000, 0x100000, 0x1000, 0, 16)
    directories = [(0, 0)] * 16
    directories[2] = (_RSRC_AT, len(resource)) if resource else (0, 0)
    optional += b"".join(struct.pack("<II", *entry) for entry in directories)
    headers, body = dos + coff + optional, b""
    for name, address, content in sections:
        padded = content.ljust(-(-len(content) // 512) * 512, b"\0")
        headers += name.ljust(8, b"\0")
        headers += struct.pack(
            "<IIIIIIHHI", len(content), address, len(padded), 1024 + len(body), 0, 0, 0, 0, 0x60000020
        )
        body += padded
    return headers.ljust(1024, b"\0") + body


_RSRC_AT = 0x4000


def _code_and_constants(constants: Sequence[str], unreferred: Sequence[str]) -> tuple[bytes, bytes]:
    data = b"\xff\xff"
    code = b"\x90"
    for name in constants:
        text = name.encode() + b"\0"
        if text not in data:
            data += text
        # the address is relative to the end of the seven-byte instruction
        offset = CONSTANTS_AT + data.index(text) - (CODE_AT + len(code) + 7)
        code += _LEA + struct.pack("<i", offset)
    return code + b"\xc3", data + b"\0".join(name.encode() for name in unreferred) + b"\0"


def _record(members: Mapping[str, bytes | str], own: str) -> str:
    lines = []
    for name, content in members.items():
        data = content.encode() if isinstance(content, str) else content
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{own},,\n"


def _resource(version: str, fixed: int) -> bytes:
    """Return a resource section: directories for type 16 (version), name 1, language 1033, then the data."""
    info = _version_info(version, fixed)
    levels = b""
    for level, number in enumerate((16, 1, 1033)):
        after = 24 * (level + 1)
        target = after if level == 2 else after | 0x80000000
        levels += struct.pack("<IIHHHH", 0, 0, 0, 0, 0, 1) + struct.pack("<II", number, target)
    return levels + struct.pack("<IIII", _RSRC_AT + len(levels) + 16, len(info), 0, 0) + info


def _version_info(version: str, fixed: int) -> bytes:
    numbers = struct.pack("<II", fixed >> 32, fixed & 0xFFFFFFFF)
    value = (
        struct.pack("<II", 0xFEEF04BD, 0x10000)
        + numbers * 2
        + struct.pack("<IIIIIII", 0x3F, 0, 0x40004, 2, 0, 0, 0)
    )
    text = (version + "\0").encode("utf-16-le")
    string = _block("FileVersion", text, len(text) // 2, 1, b"")
    table = _block("040904b0", b"", 0, 1, string)
    return _block("VS_VERSION_INFO", value, len(value), 0, _block("StringFileInfo", b"", 0, 1, table))


def _block(key: str, value: bytes, length: int, kind: int, children: bytes) -> bytes:
    """Return one nested block of a version resource; its value and children begin at multiples of four."""
    head = _padded(bytes(6) + (key + "\0").encode("utf-16-le")) + _padded(value) + children
    return struct.pack("<HHH", len(head), length, kind) + head[6:]


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
