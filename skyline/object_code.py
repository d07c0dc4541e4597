"""Compiled loops as object code on disk, which the library of LLVM (llvmlite) loads without numba.

numba's own cache needs numba, whose import and tables take 0.4 s of processor time. llvmlite takes 0.05 s. A
loop that only reads and writes arrays and cannot fail does not need numba at run time. A loop that allocates
is refused.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

_ENTRY = "skyline_loop"
_FAILED = "skyline_loop_failed"
_CHECK_BYTES = 4


class NotAlone(Exception):
    """The machine code of a loop needs numba's runtime."""


class ObjectCode:
    """The machine code of one loop in a file of a folder. ``reads`` and ``writes`` are as in ``skyline.compiled``.

    Raises:
        ImportError: llvmlite is missing.
        OSError: the source of the function cannot be read.
    """

    def __init__(self, function: Callable[..., int], reads: str, writes: str, folder: Path) -> None:
        binding = _binding()
        self._function = function
        self._reads = reads
        self._writes = writes
        source = Path(function.__code__.co_filename)
        state = source.stat()
        machine = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
        place = (
            str(source),
            function.__qualname__,
            reads,
            writes,
            sys.version,
            import_module("llvmlite").__version__,
            *machine,
        )
        self._path = folder / f"{source.stem}.{function.__name__}-{zlib.crc32(repr(place).encode()):08x}.o"
        self._made_for = repr((*place, state.st_mtime_ns, state.st_size)).encode()

    def load(self) -> Callable[..., int] | None:
        """The loop from the file. None if there is no file, or if it is damaged or from another source.

        Raises:
            NotAlone: the loop was refused before.
        """
        try:
            content = self._path.read_bytes()
        except OSError:
            return None
        check, content = content[:_CHECK_BYTES], content[_CHECK_BYTES:]
        if check != _check(content) or not content.startswith(self._made_for):
            return None
        code = content[len(self._made_for) :]
        if not code:
            raise NotAlone(self._function.__name__)
        return _callable(code, self._reads, self._writes)

    def compile(self) -> Callable[..., int]:
        """Compile the loop with numba, and write the file if the folder can be written.

        Raises:
            ImportError: numba is missing.
            NotAlone: the loop allocates.
        """
        try:
            code = _object_code(self._function, self._reads + self._writes)
        except NotAlone:
            self._write(b"")
            raise
        self._write(code)
        return _callable(code, self._reads, self._writes)

    def _write(self, code: bytes) -> None:
        content = self._made_for + code
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            written = self._path.with_suffix(f".{os.getpid()}")
            written.write_bytes(_check(content) + content)
            written.replace(self._path)


def _check(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECK_BYTES, "little")


def _binding() -> Any:
    # Its functions have no types.
    return import_module("llvmlite.binding")


def _target() -> Any:
    binding = _binding()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


_NUMBERS: dict[str, Any] = {"n": ctypes.c_int64, "x": ctypes.c_double}


def _callable(code: bytes, reads: str, writes: str) -> Callable[..., int]:
    """The function in object code; it takes arrays of exactly the given types, and numbers."""
    binding = _binding()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    parameters: list[Any] = []
    for kind in reads + writes:
        parameters += (_NUMBERS[kind],) if kind in _NUMBERS else (ctypes.c_void_p, ctypes.c_int64)
    native = ctypes.CFUNCTYPE(ctypes.c_int64, *parameters)(engine.get_function_address(_ENTRY))
    failed = ctypes.c_int8.from_address(engine.get_global_value_address(_FAILED))

    # The engine owns the memory of the code and lives as long as the function.
    def call(*arguments: Any, engine: Any = engine) -> int:
        flat: list[Any] = []
        for place, argument in enumerate(arguments):
            if not hasattr(argument, "ctypes"):
                flat.append(argument)
                continue
            if place >= len(reads) and not argument.flags.writeable:
                raise ValueError("an array that the loop writes is read-only")
            flat += (argument.ctypes.data, len(argument))
        result = native(*flat)
        if failed.value:
            failed.value = 0
            raise ArithmeticError("a compiled loop could not compute its result")
        return result

    return call


def _object_code(function: Callable[..., int], types: str) -> bytes:
    numba: Any = import_module("numba")
    elements = {"i": numba.int32, "f": numba.float64, "b": numba.boolean}
    signature: list[Any] = []
    parameters: list[str] = []
    given: list[str] = []
    for place, kind in enumerate(types):
        parameters.append(f"a{place}")
        if kind in _NUMBERS:
            signature.append(numba.int64 if kind == "n" else numba.float64)
            given.append(f"a{place}")
        else:
            signature += (numba.types.CPointer(elements[kind]), numba.int64)
            parameters.append(f"n{place}")
            given.append(f"carray(a{place}, (n{place},))")
    names: dict[str, Any] = {"inner": numba.njit(nogil=True)(function), "carray": numba.carray}
    # numba compiles functions of a fixed number of parameters only.
    exec(f"def flat({', '.join(parameters)}):\n    return inner({', '.join(given)})\n", names)
    compiled = numba.cfunc(numba.int64(*signature))(names["flat"])
    text = _alone(compiled.inspect_llvm()).replace(compiled.native_name, _ENTRY)
    return _target().emit_object(_binding().parse_assembly(text))


_DECLARED = re.compile(r"^declare (?P<type>.*?)@(?P<name>[\w.]+)(?P<rest>\(.*)$", re.MULTILINE)
_EXTERNAL = re.compile(r"^(?P<name>@\w+ = )external (?P<kind>global i8)$", re.MULTILINE)
_ENTERS_ERROR = "numba_gil_ensure"
_OF_ERRORS = re.compile(
    r"numba_(gil_\w+|unpickle|do_raise|runtime_build_excinfo_struct)|NRT_(Free|MemInfo_call_dtor)|Py\w+"
)
"""Functions that numba calls only to report an error or to free memory that a loop has allocated."""


def _alone(text: str) -> str:
    """The code of a module for LLVM with error reporting removed: its functions that would report an error do nothing.

    Raises:
        NotAlone: the module calls other functions than those.
    """

    def defined(found: re.Match[str]) -> str:
        name = found["name"]
        if name.startswith("llvm."):
            return found[0]
        if not _OF_ERRORS.fullmatch(name):
            raise NotAlone(name)
        kind = found["type"].split()[-1]
        notes = f"  store i8 1, ptr @{_FAILED}\n" if name == _ENTERS_ERROR else ""
        result = "ret void" if kind == "void" else f"ret {kind} zeroinitializer"
        return f"define internal {found['type']}@{name}{found['rest']} {{\n{notes}  {result}\n}}"

    text = _EXTERNAL.sub(r"\g<name>internal \g<kind> 0", _DECLARED.sub(defined, text))
    return f"{text}\n@{_FAILED} = global i8 0\n"
