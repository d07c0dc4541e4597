"""Redirects Python's calls with file names through the overlay."""

from __future__ import annotations

import builtins
import functools
import glob
import io
import os
import pathlib
import shutil
import sys
import tempfile

from .. import variant
from . import refusal

_READING = (
    "access", "chdir", "getxattr", "listxattr", "lstat", "pathconf", "readlink", "stat", "statvfs",
)  # fmt: skip
_CHANGING = ("chmod", "chown", "fchmod", "fchown", "lchown", "removexattr", "setxattr", "utime")
_NOT_FOLLOWING = ("lchown", "lstat", "readlink")
_SWEPT = ("bz2", "codecs", "gzip", "lzma", "pathlib", "shutil", "tarfile", "tempfile", "tokenize", "zipfile")


def install(overlay):
    """Replace the file calls of ``os``, ``io``, ``builtins`` and ``shutil``, and references to them in modules."""
    replaced = {builtins.open: _opening(overlay)}
    calls = _calls(overlay)
    for name, call in calls.items():
        native = getattr(os, name, None)
        if native is None:
            continue
        replaced[native] = functools.update_wrapper(call, native)
        setattr(os, name, call)
        if name not in (*_READING, "listdir", "scandir"):
            # The import system needs the native reading calls, because it does not support layers.
            setattr(sys.modules.get("posix", os), name, call)
        for group in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if native in group:
                group.add(call)
    builtins.open = io.open = replaced[overlay.native.builtin_open]
    io.FileIO = _file_io(overlay)
    os.getcwd = overlay.getcwd
    _sweep(replaced)
    _install_in_shutil(overlay)
    _install_in_tempfile(overlay)


def _sweep(replaced):
    """Replace the calls in modules that imported them earlier under their own names."""
    for name in _SWEPT:
        for attribute, value in list(vars(sys.modules.get(name, sys)).items()):
            try:
                wrapper = replaced.get(value)
            except TypeError:
                continue
            if wrapper is not None:
                setattr(sys.modules[name], attribute, wrapper)
    # In Python 3.10 a class holds the calls of pathlib; in Python 3.13 another class holds those of glob patterns.
    for holder in (getattr(pathlib, "_NormalAccessor", None), getattr(glob, "_StringGlobber", None)):
        for attribute, value in list(vars(holder).items()) if holder is not None else ():
            native = getattr(value, "__func__", value)
            if callable(native) and native in replaced:
                setattr(holder, attribute, staticmethod(replaced[native]))


def _opening(overlay):
    native = overlay.native.builtin_open

    def open(file, mode="r", *args, **kwargs):
        if isinstance(mode, str) and isinstance(file, (str, bytes, os.PathLike)):
            if "w" in mode or "a" in mode or "+" in mode or "x" in mode:
                target = overlay.for_writing(
                    file, keeps="w" not in mode, creates="r" not in mode, exclusive="x" in mode
                )
            else:
                target = overlay.find(file) if overlay.in_use[0] else file
                target = variant.opened(file) or target
            if target is not file:
                return _told_of(overlay, file, native, target, mode, *args, **kwargs)
        return native(file, mode, *args, **kwargs)

    return functools.update_wrapper(open, native)


def _file_io(overlay):
    native = io.FileIO

    class Raw(type(native)):
        def __instancecheck__(cls, instance):
            return isinstance(instance, native) if cls is FileIO else super().__instancecheck__(instance)

    class FileIO(native, metaclass=Raw):
        def __init__(self, file, mode="r", closefd=True, opener=None):
            if isinstance(file, (str, bytes, os.PathLike)) and opener is None:
                if set(mode) & set("wax+"):
                    file = overlay.for_writing(
                        file, keeps="w" not in mode, creates="r" not in mode, exclusive="x" in mode
                    )
                elif overlay.in_use[0]:
                    file = overlay.find(file)
            native.__init__(self, file, mode, closefd, opener)

    FileIO.__module__ = native.__module__
    return FileIO


def _calls(overlay):
    native = overlay.native
    calls = {name: _reading(overlay, name) for name in _READING if hasattr(os, name)}
    calls.update({name: _changing(overlay, name) for name in _CHANGING if hasattr(os, name)})

    def os_open(path, flags, mode=0o777, *, dir_fd=None):
        temporary = getattr(os, "O_TMPFILE", 0)
        if temporary and flags & temporary == temporary:
            # A file without a name can be created anywhere, so that it goes to a place where the run may write.
            folder = overlay.canonical(overlay.beside(path, dir_fd), True)
            nameless = folder is not None and overlay.redirects and overlay.is_folder(folder)
            if nameless and not overlay.policy.is_open_to_all(folder):
                return native.open(os.path.dirname(overlay.tree), flags, mode)
            return native.open(path, flags, mode, dir_fd=dir_fd)
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
            path = overlay.beside(path, dir_fd)
            target = overlay.for_writing(
                path,
                keeps=not flags & os.O_TRUNC,
                creates=bool(flags & os.O_CREAT),
                exclusive=bool(flags & os.O_EXCL),
                follow=not flags & getattr(os, "O_NOFOLLOW", 0),
            )
        elif not overlay.in_use[0]:
            return native.open(path, flags, mode, dir_fd=dir_fd)
        else:
            path = overlay.beside(path, dir_fd)
            target = overlay.find(path, not flags & getattr(os, "O_NOFOLLOW", 0))
        return _told_of(overlay, path, native.open, target, flags, mode)

    def mkdir(path, mode=0o777, *, dir_fd=None):
        return overlay.make_folder(overlay.beside(path, dir_fd), mode)

    def removing(call):
        def remove(path, *, dir_fd=None):
            return overlay.remove(overlay.beside(path, dir_fd), call)

        return remove

    def renaming(call):
        def rename(src, dst, *, src_dir_fd=None, dst_dir_fd=None):
            return overlay.rename(overlay.beside(src, src_dir_fd), overlay.beside(dst, dst_dir_fd), call)

        return rename

    def linking(call):
        def link(src, dst, *args, **kwargs):
            # The target of a symbolic link is resolved later, not now.
            source = kwargs.pop("src_dir_fd", None)
            target = kwargs.pop("dst_dir_fd", kwargs.pop("dir_fd", None))
            return overlay.make_link(
                overlay.beside(src, source), overlay.beside(dst, target), call, *args, **kwargs
            )

        return link

    def making(call):
        def make(path, *args, dir_fd=None, **kwargs):
            return overlay.make_node(overlay.beside(path, dir_fd), call, *args, **kwargs)

        return make

    def truncate(path, length):
        if not isinstance(path, int):
            path = overlay.for_writing(path, keeps=True, creates=False)
        return native.truncate(path, length)

    def listdir(path="."):
        if not overlay.in_use[0] or isinstance(path, int):
            return native.listdir(path)
        names = overlay.names_in(overlay.canonical(path) or "")
        if names is None:
            return _told_of(overlay, path, native.listdir, overlay.find(path))
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else list(names)

    def scandir(path="."):
        if not overlay.in_use[0] or isinstance(path, int):
            return native.scandir(path)
        names = overlay.names_in(overlay.canonical(path) or "")
        if names is None and overlay.find(path) is path:
            return native.scandir(path)
        if names is None:
            at = overlay.find(path)
            names = {name: os.path.join(at, name) for name in _told_of(overlay, path, native.listdir, at)}
        return _Entries(overlay, path, names)

    calls.update(open=os_open, mkdir=mkdir, listdir=listdir, scandir=scandir, truncate=truncate)
    calls.update({name: removing(getattr(os, name)) for name in ("remove", "unlink", "rmdir")})
    calls.update({name: renaming(getattr(os, name)) for name in ("rename", "replace")})
    calls.update({name: linking(getattr(os, name)) for name in ("link", "symlink") if hasattr(os, name)})
    calls.update({name: making(getattr(os, name)) for name in ("mkfifo", "mknod") if hasattr(os, name)})
    return calls


def _reading(overlay, name):
    call, follows = getattr(os, name), name not in _NOT_FOLLOWING

    def read(path=".", *args, **kwargs):
        if not overlay.in_use[0] or isinstance(path, int):
            return call(path, *args, **kwargs)
        folder = kwargs.get("dir_fd")
        if folder is not None:
            path, kwargs["dir_fd"] = overlay.beside(path, folder), None
        target = overlay.find(path, follows and kwargs.get("follow_symlinks", True))
        return _told_of(overlay, path, call, target, *args, **kwargs)

    return read


def _changing(overlay, name):
    call, follows = getattr(os, name), name not in _NOT_FOLLOWING

    def change(path, *args, **kwargs):
        if isinstance(path, int):
            return overlay.change_open(path, call, *args, **kwargs)
        folder = kwargs.pop("dir_fd", None)
        follow = follows and kwargs.get("follow_symlinks", True)
        return overlay.change(overlay.beside(path, folder), call, *args, follow=follow, **kwargs)

    return change


def _told_of(overlay, path, call, target, *args, **kwargs):
    """Call with the real target; an error names the path that the script gave."""
    try:
        return call(target, *args, **kwargs)
    except OSError as error:
        refusal.note(error)
        if error.filename == target:
            error.filename = path
        raise


def _install_in_shutil(overlay):
    native = shutil.rmtree

    @functools.wraps(native)
    def rmtree(path, ignore_errors=False, *args, **kwargs):
        if kwargs.get("dir_fd") is None and isinstance(path, (str, bytes, os.PathLike)):
            if overlay.remove_all(path):
                return None
            if ignore_errors and not os.path.lexists(path):
                return None
            if overlay.redirects and not os.path.lexists(path) and not args and not kwargs:
                os.lstat(path)
        return native(path, ignore_errors, *args, **kwargs)

    rmtree.avoids_symlink_attacks = getattr(native, "avoids_symlink_attacks", False)
    shutil.rmtree = rmtree


def _install_in_tempfile(overlay):
    """Replace the call that removes named temporary files, which was bound when the class was created."""
    closer = getattr(tempfile, "_TemporaryFileCloser", None)
    for name in ("close", "cleanup"):
        method = getattr(closer, name, None)
        if method is not None and getattr(method, "__defaults__", None):
            method.__defaults__ = tuple(
                os.unlink if value is overlay.native.unlink else value for value in method.__defaults__
            )


class _Entries:
    """The result of ``os.scandir`` for a folder that exists in two layers."""

    def __init__(self, overlay, path, names):
        self._entries = iter([_Entry(overlay, path, name, at) for name, at in names.items()])

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._entries = iter(())


class _Entry(os.PathLike):
    """An ``os.DirEntry`` whose file may be in either layer."""

    def __init__(self, overlay, folder, name, at):
        encode = os.fsencode if isinstance(folder, bytes) else str
        self.name = encode(name)
        self.path = os.path.join(os.fspath(folder), self.name)
        self._overlay = overlay
        self._absolute = os.path.join(overlay.getcwd(), os.fsdecode(self.path))
        self._at = at

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks=True):
        at = self._overlay.find(self._absolute) if follow_symlinks else self._at
        return self._overlay.native.stat(at, follow_symlinks=follow_symlinks)

    def inode(self):
        return self._overlay.native.lstat(self._at).st_ino

    def is_dir(self, *, follow_symlinks=True):
        return self._is(0o040000, follow_symlinks)

    def is_file(self, *, follow_symlinks=True):
        return self._is(0o100000, follow_symlinks)

    def is_symlink(self):
        return self._is(0o120000, False)

    def is_junction(self):
        return False

    def _is(self, kind, follow):
        try:
            return self.stat(follow_symlinks=follow).st_mode & 0o170000 == kind
        except OSError:
            return False
