"""Makes changes of files in the run's own layer: files that it removes still exist in the real layer."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat

from . import write_policy
from .layers import FileLayers


class Overlay(FileLayers):
    """The operations that change files. With ``redirects`` off they are real, and only logged."""

    def __init__(self, scratch, policy, log, *, redirects=True):
        super().__init__(scratch, policy)
        self.redirects = redirects
        self.log = log

    def for_writing(self, path, *, keeps=False, creates=True, exclusive=False, follow=True):
        """The path to open for writing; ``keeps`` preserves the old contents, ``creates`` allows a new file."""
        canonical = self.canonical(path, follow and not exclusive)
        if canonical is None:
            return path
        # Only this layer knows the script's own links.
        named = canonical if self.in_use[1] else path
        if self.policy.is_open_to_all(canonical):
            return named
        scratch, real = self.scratch_of(canonical), self.real_of(canonical)
        if self.mode_of(scratch) is not None:
            self._note_written(canonical, "file")
            return scratch
        present = real is not None and self.mode_of(real) is not None
        if present:
            try:
                regular = stat.S_ISREG(self.native.stat(real).st_mode)
            except OSError:
                regular = False
            if not regular or exclusive:
                return real
        if not present and (not creates or not self.is_folder(os.path.dirname(canonical))):
            return named if real is not None else scratch
        if not self.diverts(canonical, "file"):
            self._make_real_folder(os.path.dirname(canonical))
            return named
        self.make_scratch_folder(os.path.dirname(canonical))
        if present and keeps:
            self._copy(real, scratch)
        return scratch

    def diverts(self, canonical, kind):
        """True if this change must be redirected; logs the change in either case."""
        if not self.redirects:
            fetched = kind != "removal" and write_policy.is_download()
            self.log.note("download" if fetched else kind, canonical, "allowed")
            return False
        if self.policy.is_library_cache(canonical):
            return False
        self._note_written(canonical, kind)
        self.in_use[0] = 1
        return True

    def _note_written(self, canonical, kind):
        """Log a redirected change. Unchanged downloads are moved out of the scratch folder later."""
        if kind == "removal":
            self.log.note(kind, canonical, "held back")
            return
        fetched = write_policy.is_download()
        if fetched and kind == "folder":
            return
        self.log.note("download" if fetched else kind, canonical, "redirected")
        if fetched or self.in_use[2]:
            self.in_use[2] = 1
            self.log.note_fetched(canonical, fetched)

    def make_folder(self, path, mode=0o777):
        """``os.mkdir``."""
        canonical = self.canonical(path)
        if canonical is None or self.policy.is_open_to_all(canonical):
            return self.native.mkdir(path, mode)
        self._check_new(canonical, path)
        if self.diverts(canonical, "folder"):
            return self.make_scratch_folder(canonical)
        self._make_real_folder(os.path.dirname(canonical))
        return self.native.mkdir(path, mode)

    def remove(self, path, call):
        """``os.remove`` and ``os.rmdir``; ``call`` is the real function."""
        canonical = self.canonical(path)
        if canonical is None or self.policy.is_open_to_all(canonical):
            return call(path)
        if not self.exists(canonical):
            raise _missing(path)
        scratch, real = self.scratch_of(canonical), self.real_of(canonical)
        if call is self.native.rmdir and self.is_folder(canonical) and not self.is_empty(canonical):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        present = real is not None and self.mode_of(real) is not None
        if self.mode_of(scratch) is not None:
            call(scratch)
        elif not self.diverts(canonical, "removal"):
            return call(path)
        if present:
            self._check_kind(real, call, path)
            self._hide(canonical)
        return None

    def remove_all(self, path):
        """``shutil.rmtree`` of a folder that the script sees; True if it is done."""
        canonical = self.canonical(path)
        if canonical is None or self.policy.is_open_to_all(canonical) or not self.is_folder(canonical):
            return False
        scratch, real = self.scratch_of(canonical), self.real_of(canonical)
        if stat.S_ISLNK(self.mode_of(self.locate(canonical)) or 0):
            return False
        present = real is not None and self.mode_of(real) is not None
        if present and not self.diverts(canonical, "removal"):
            return False
        self._remove_scratch(scratch)
        if present:
            self._hide(canonical)
        return True

    def rename(self, source, target, call):
        """``os.rename`` and ``os.replace``."""
        old, new = self.canonical(source), self.canonical(target)
        if old is None or new is None:
            return call(source, target)
        if self.policy.is_open_to_all(old) and self.policy.is_open_to_all(new):
            return call(source, target)
        if not self.exists(old) or not self.is_folder(os.path.dirname(new)):
            # The real call must not run here: a file removed in this layer still exists in the other.
            raise _missing(source, target)
        scratch, real = self.scratch_of(old), self.real_of(old)
        if self.policy.is_open_to_all(old):
            if not self.diverts(new, "file"):
                self._make_real_folder(os.path.dirname(new))
                return call(source, target)
            scratch, real = old, None
        written = self.mode_of(scratch) is not None
        if not written and not self.diverts(new, "file"):
            self._make_real_folder(os.path.dirname(new))
            return call(source, target)
        if self.policy.is_open_to_all(new):
            if written:
                return call(scratch, new)
            return self._copy(real, new)
        if self.is_folder(new) and not self.is_folder(old):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source, None, target)
        if self.is_folder(new) and not self.is_empty(new):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), source, None, target)
        self._remove_scratch(self.scratch_of(new))
        self.moved = {path: at for path, at in self.moved.items() if not _under(path, new)}
        below = {path: at for path, at in self.moved.items() if _under(path, old)}
        for path, at in below.items():
            self.moved[new + path[len(old) :]] = at
            if path != old:
                del self.moved[path]
        present = real is not None and self.mode_of(real) is not None
        self.make_scratch_folder(os.path.dirname(new))
        if written:
            self.native.rename(scratch, self.scratch_of(new))
        if present:
            self.moved[new] = real
            self.moved[old] = None
        elif self.mode_of(new) is not None:
            self.moved[new] = None
        self._note_written(new, "file")
        return None

    def make_link(self, source, target, call, *args, **kwargs):
        """``os.symlink`` and ``os.link``."""
        new = self.canonical(target)
        if new is None or (
            self.policy.is_open_to_all(new) and call is not getattr(self.native, "link", None)
        ):
            return call(source, target, *args, **kwargs)
        self._check_new(new, source, target)
        opened = self.policy.is_open_to_all(new)
        if not opened and not self.diverts(new, "file"):
            return call(source, target, *args, **kwargs)
        at = new if opened else self.scratch_of(new)
        if not opened:
            self.make_scratch_folder(os.path.dirname(new))
        if call is not getattr(self.native, "link", None):
            self.in_use[1] = 1
            return call(source, at, *args, **kwargs)
        # A hard link to a user's file would allow changes of the file: the run gets a copy.
        return self._copy(self.find(source), at)

    def make_node(self, path, call, *args, **kwargs):
        """``os.mkfifo`` and ``os.mknod``."""
        new = self.canonical(path)
        if new is None or self.policy.is_open_to_all(new):
            return call(path, *args, **kwargs)
        self._check_new(new, path)
        if not self.diverts(new, "file"):
            return call(path, *args, **kwargs)
        self.make_scratch_folder(os.path.dirname(new))
        return call(self.scratch_of(new), *args, **kwargs)

    def change(self, path, call, *args, follow=True, **kwargs):
        """``os.chmod``, ``os.utime`` and similar calls: done for the run's own files, suppressed for others."""
        canonical = self.canonical(path, follow)
        if canonical is None or self.policy.is_open_to_all(canonical):
            return call(path, *args, **kwargs)
        at = self.locate(canonical)
        if at == self.scratch_of(canonical):
            return call(at, *args, **kwargs)
        if self.mode_of(at) is None or not self.diverts(canonical, "file"):
            return call(path, *args, **kwargs)
        return None

    def change_open(self, descriptor, call, *args, **kwargs):
        """Like ``change``, for an open file."""
        path = self.path_of(descriptor)
        if path is None or not os.path.isabs(path) or self.policy.is_open_to_all(path):
            return call(descriptor, *args, **kwargs)
        if self.native.readlink(f"/proc/self/fd/{descriptor}") != path:
            return call(descriptor, *args, **kwargs)  # the file is in the scratch tree
        if self.mode_of(path) is None or not self.diverts(path, "file"):
            return call(descriptor, *args, **kwargs)
        return None

    def make_scratch_folder(self, canonical):
        """Make the folder in the scratch tree."""
        self._make_folders(self.scratch_of(canonical))
        self.in_use[0] = 1

    def _make_folders(self, path):
        missing = []
        while self.mode_of(path) is None:
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                self.native.mkdir(folder, 0o777)

    def _make_real_folder(self, canonical):
        """Make a real folder, for a download into a folder that exists only in the scratch tree so far."""
        with contextlib.suppress(OSError):
            self._make_folders(canonical)

    def _hide(self, canonical):
        self.moved = {path: at for path, at in self.moved.items() if not _under(path, canonical)}
        self.moved[canonical] = None
        self.in_use[0] = 1

    def _check_new(self, canonical, path, target=None):
        """Raise an error like the real call if the path exists, or if its folder does not."""
        if self.exists(canonical):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path, None, target)
        if not self.is_folder(os.path.dirname(canonical)):
            raise _missing(path, target)

    def _check_kind(self, real, call, path):
        """Raise an error like the real call if a folder is removed as a file, or a file as a folder."""
        folder = stat.S_ISDIR(self.mode_of(real) or 0)
        if folder and call is not self.native.rmdir:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not folder and call is self.native.rmdir:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)

    def _remove_scratch(self, path):
        mode = self.mode_of(path)
        if mode is None:
            return
        if not stat.S_ISDIR(mode):
            self.native.unlink(path)
            return
        for name in self.native.listdir(path):
            self._remove_scratch(os.path.join(path, name))
        self.native.rmdir(path)

    def _copy(self, source, target):
        with self.native.builtin_open(source, "rb") as old, self.native.builtin_open(target, "wb") as new:
            shutil.copyfileobj(old, new, 1 << 20)


def _missing(path, target=None):
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path, None, target)


def _under(path, folder):
    return path == folder or path.startswith(folder + os.sep)
