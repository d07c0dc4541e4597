"""Redirects libraries that open files in native code, without Python calls, through the overlay one by one."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import urllib.parse

from .import_hooks import after_import

_COPIED_ON_WRITE_BYTES = 64 << 20
"""A larger file that is mapped for reading and writing is mapped privately instead of copied."""


def install(overlay):
    """Redirect the libraries that are imported already, and the others at their import."""

    def lead(module, name, position, *, writes):
        """Redirect the path argument of ``module.name``, at this position or under one of the usual names."""
        after_import(module, lambda found: _lead(overlay, found, name, position, writes))

    for module, name, position, writes in _CALLS:
        lead(module, name, position, writes=writes)
    after_import("torch._C", lambda found: _lead_scripts(overlay, found))
    after_import("torch", lambda torch: _lead_mapped(overlay, torch))
    after_import("numpy", lambda numpy: _lead_memmap(overlay, numpy))
    after_import("transformers.tokenization_utils_tokenizers", lambda found: _lead_tokenizer(overlay, found))
    after_import("transformers.tokenization_utils_fast", lambda found: _lead_tokenizer(overlay, found))


_CALLS = (
    ("torch", "save", 1, True),
    ("torch", "load", 0, False),
    ("torch.jit", "save", 1, True),
    ("torch.jit", "load", 0, False),
    ("torch", "from_file", 0, True),
    ("torch.onnx", "export", 2, True),
    ("sqlite3", "connect", 0, True),
    ("sqlite3", "Connection", 0, True),
    ("sqlite3.dbapi2", "connect", 0, True),
    ("safetensors", "serialize_file", 1, True),
    ("safetensors", "safe_open", 0, False),
    ("cv2", "imwrite", 0, True),
    ("cv2", "imread", 0, False),
    ("h5py", "File", 0, True),
    ("soundfile", "write", 0, True),
    ("pyarrow.parquet", "write_table", 1, True),
    ("pyarrow.parquet", "read_table", 0, False),
    ("torchvision.io", "write_png", 1, True),
    ("torchvision.io", "write_jpeg", 1, True),
    ("torchvision.io", "write_file", 0, True),
    ("torchvision.io", "write_video", 0, True),
    ("torchaudio", "save", 0, True),
    ("lmdb", "open", 0, True),
    ("huggingface_hub.file_download", "xet_get", 0, True),
    # All savers of PyTorch use PyTorchFileWriter, except those of scripted modules.
    ("torch._C", "PyTorchFileWriter", 0, True),
    ("torch._C", "PyTorchFileReader", 0, False),
    # Ranks may meet through a file. Two modules hold the class under their own names.
    ("torch.distributed", "FileStore", 0, True),
    ("torch.distributed.rendezvous", "FileStore", 0, True),
)
_PATH_NAMES = (
    *("f", "filename", "path", "file", "database", "name", "uri", "where", "source", "output_file"),
    "incomplete_path",
)
_READ_MODES = ("r", "rb")
_KEEPING = ("connect", "Connection", "open", "from_file", "File", "FileStore", "xet_get")


def _lead(overlay, module, name, position, writes):
    native = getattr(module, name, None)
    if native is None:
        return

    def led(*args, **kwargs):
        if len(args) > position:
            args = (
                *args[:position],
                target(args[position], args[position + 1 :], kwargs),
                *args[position + 1 :],
            )
        else:
            for given in _PATH_NAMES:
                if given in kwargs:
                    kwargs[given] = target(kwargs[given], (), kwargs)
                    break
        return native(*args, **kwargs)

    def target(path, rest, kwargs):
        if not isinstance(path, (str, bytes, os.PathLike)) or path in ("", ":memory:"):
            return path
        if kwargs.get("uri") is True and os.fsdecode(path).startswith("file:"):
            return _led_uri(overlay, os.fsdecode(path))
        found = at(path, rest, kwargs)
        return type(path)(found) if isinstance(path, pathlib.Path) else found

    def at(path, rest, kwargs):
        mode = kwargs.get("mode", rest[0] if rest and isinstance(rest[0], str) else None)
        if not writes or (name == "File" and (mode is None or mode in _READ_MODES)):
            return overlay.find(path) if overlay.in_use[0] else path
        return overlay.for_writing(path, keeps=name in _KEEPING and mode != "w")

    functools.update_wrapper(led, native, updated=())
    if isinstance(native, type):
        # Other code may derive from the class and call isinstance: the replacement is a class if possible.
        with contextlib.suppress(TypeError):
            members = {
                "__init__": _leading_init(native, target),
                "__module__": native.__module__,
                "_stands_for": native,
            }
            kind = _SameClass if type(native) is type else type(native)
            led = kind(native.__name__, (native,), members)
    setattr(module, name, led)


class _SameClass(type):
    """The metaclass of a class that replaces its base class: instances of the base count as its instances."""

    def __instancecheck__(cls, instance):
        stands_for = cls.__dict__.get("_stands_for")
        return (
            type.__instancecheck__(cls, instance) if stands_for is None else isinstance(instance, stands_for)
        )


def _leading_init(native, target):
    def __init__(self, path, *args, **kwargs):
        native.__init__(self, target(path, args, kwargs), *args, **kwargs)

    return __init__


def _led_uri(overlay, uri):
    """Redirect the path in a database URI of SQLite."""
    parts = urllib.parse.urlsplit(uri)
    options = urllib.parse.parse_qs(parts.query)
    path = urllib.parse.unquote(parts.path)
    if path in ("", ":memory:") or options.get("mode") == ["memory"] or options.get("vfs") == ["memdb"]:
        return uri
    if options.get("mode") == ["ro"] or "immutable" in options:
        path = overlay.find(path) if overlay.in_use[0] else path
    else:
        path = overlay.for_writing(path, keeps=True, creates=options.get("mode") != ["rw"])
    return f"file:{urllib.parse.quote(path)}" + (f"?{parts.query}" if parts.query else "")


def _lead_scripts(overlay, module):
    """Redirect the ``save`` method of scripted and traced modules."""
    for name in ("ScriptModule", "ScriptFunction"):
        cls = getattr(module, name, None)
        native = getattr(cls, "save", None)
        if native is None:
            continue

        def save(self, path, *args, _native=native, **kwargs):
            if isinstance(path, (str, os.PathLike)):
                path = overlay.for_writing(os.fspath(path))
            return _native(self, path, *args, **kwargs)

        cls.save = save


def _lead_mapped(overlay, torch):
    """Redirect storages that are mapped to a file: writes to a shared storage go to its file."""
    native = torch.UntypedStorage.from_file

    def from_file(cls, filename, shared=False, *args, **kwargs):
        if isinstance(filename, (str, os.PathLike)):
            named = os.fspath(filename)
            if shared:
                filename = overlay.for_writing(named, keeps=True)
            else:
                filename = overlay.find(named) if overlay.in_use[0] else named
        return native(filename, shared, *args, **kwargs)

    torch.UntypedStorage.from_file = classmethod(from_file)


def _lead_memmap(overlay, numpy):
    native = numpy.memmap.__new__

    def __new__(cls, filename, dtype=numpy.uint8, mode="r+", *args, **kwargs):
        named = isinstance(filename, (str, bytes, os.PathLike))
        if named and mode in ("r+", "readwrite") and overlay.redirects:
            at = overlay.find(filename)
            try:
                large = at is filename and overlay.native.stat(at).st_size > _COPIED_ON_WRITE_BYTES
            except OSError:
                large = False
            mode = "c" if large else mode
        return native(cls, filename, dtype, mode, *args, **kwargs)

    numpy.memmap.__new__ = __new__


def _lead_tokenizer(overlay, module):
    """Redirect fast tokenizers, which native code writes into a folder that the script has just created."""
    for name in ("PreTrainedTokenizerFast", "TokenizersBackend"):
        cls = getattr(module, name, None)
        native = getattr(cls, "_save_pretrained", None)
        if native is None:
            continue

        def _save_pretrained(self, save_directory, *args, _native=native, **kwargs):
            canonical = overlay.canonical(save_directory)
            if overlay.redirects and canonical is not None and overlay.is_folder(canonical):
                overlay.make_scratch_folder(canonical)
                save_directory = overlay.scratch_of(canonical)
            names = _native(self, save_directory, *args, **kwargs)
            return tuple(overlay.virtual(str(name)) for name in names or ())

        cls._save_pretrained = _save_pretrained
