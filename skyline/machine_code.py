"""Machine code of loops, kept in files.

Importing numba takes longer than an answer about most traces. Code that it has compiled is kept in files. llvmlite,
the part of LLVM that numba is built on, loads them without numba. Code that calls anything outside itself is not kept.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

Code = Callable[..., int]
_VERSION = "1"
_SCALARS: dict[str, Any] = {"n": ctypes.c_int64, "x": ctypes.c_double}
_OF_AN_ARRAY = (*(ctypes.c_void_p,) * 2, *(ctypes.c_int64,) * 2, ctypes.c_void_p, *(ctypes.c_int64,) * 2)
"""The arguments that stand for an array: its owner, unused; the number and the size of its elements, where they are,
and again their number and size, as its shape and its strides."""
_DECLARED = re.compile(r'^declare .*?@"?(?!llvm\.)([\w.$]+)', re.MULTILINE)
_DEFINED = re.compile(r"^define .*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"^@.* external (?:\w+ )*global", re.MULTILINE)


def path_of(folder: Path, function: Callable[..., int], kinds: str) -> Path:
    """The file for a function with arguments of these kinds, for this version of its text and of Python."""
    code = function.__code__
    text = repr((_VERSION, sys.version_info[:2], code.co_code, code.co_consts, code.co_names, kinds))
    return folder / f"{function.__name__.strip('_')}-{sha256(text.encode()).hexdigest()[:16]}.o"


def loaded(path: Path, kinds: str) -> Code | None:
    """The function in a file; None if there is none that fits this processor.

    ``kinds`` has a letter for each argument: ``n`` and ``x`` are an integer and a number, all others are arrays.
    """
    try:
        with path.open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None  # Somebody else's code is not run.
            symbol, made_for, digest, code = file.read().split(b"\n", 3)
        llvm: Any = import_module("llvmlite.binding")
    except (OSError, ValueError, ImportError):
        return None
    if made_for != _here(llvm) or digest != sha256(code).hexdigest().encode():
        return None
    return _linked(llvm, symbol.decode(), code, kinds)


def keep(path: Path, text: str, symbol: str, kinds: str) -> None:
    """Write the machine code of a function of an LLVM module to a file; an empty file if it calls anything outside."""
    expected = 2 + sum(1 if kind in _SCALARS else len(_OF_AN_ARRAY) for kind in kinds)
    heads = [line for line in _DEFINED.findall(text) if symbol in line]
    alone = not _ELSEWHERE.search(text) and all(text.count(name) == 1 for name in _DECLARED.findall(text))
    if not alone or len(heads) != 1 or heads[0].count("%") != expected or " i32 @" not in heads[0]:
        refuse(path)
        return
    llvm: Any = import_module("llvmlite.binding")
    code: bytes = _machine(llvm).emit_object(llvm.parse_assembly(text))
    head = (symbol.encode(), _here(llvm), sha256(code).hexdigest().encode())
    _write(path, b"\n".join((*head, code)))


def is_refused(path: Path) -> bool:
    """True if it is known that the code of this file cannot be loaded by itself."""
    try:
        return not path.stat().st_size
    except OSError:
        return False


def refuse(path: Path) -> None:
    """Note that the code of this file cannot be loaded by itself."""
    _write(path, b"")


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)


def _here(llvm: Any) -> bytes:
    """The version of the linker, and the processor."""
    llvmlite: Any = import_module("llvmlite")
    words = (llvmlite.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    return " ".join(words).encode()


def _machine(llvm: Any) -> Any:
    with suppress(RuntimeError):
        llvm.initialize()  # before llvmlite 0.45
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )


def _linked(llvm: Any, symbol: str, code: bytes, kinds: str) -> Code:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(llvm))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    types: list[Any] = []
    for kind in kinds:
        types += (_SCALARS[kind],) if kind in _SCALARS else _OF_AN_ARRAY
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *types)
    function = prototype(engine.get_function_address(symbol))

    def call(*arguments: Any, _engine: Any = engine) -> int:  # the engine holds the memory of the code
        result, raised = ctypes.c_int64(), ctypes.c_void_p()
        given: list[Any] = []
        for kind, one in zip(kinds, arguments, strict=True):
            given += (one,) if kind in _SCALARS else _array(one)
        if function(ctypes.byref(result), ctypes.byref(raised), *given):
            raise RuntimeError(f"{symbol} failed")
        return result.value

    return call


def _array(array: Any) -> Sequence[Any]:
    size, width = array.size, array.itemsize
    return None, None, size, width, array.__array_interface__["data"][0], size, width
