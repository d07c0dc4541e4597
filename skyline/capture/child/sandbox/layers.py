"""The script's view of two layers of files: the real files, and the run's own files above them."""

from __future__ import annotations

import builtins
import errno
import mmap
import os
import stat
import types

_NATIVE_NAMES = (
    "access chdir chmod chown close fchmod fchown getcwd getxattr lchown link listdir listxattr lstat mkdir mkfifo "
    "mknod open readlink remove removexattr rename replace rmdir scandir setxattr stat statvfs symlink truncate "
    "unlink utime write"
)

_IN_USE = "in-use"
_MOST_LINKS = 40
_KERNEL = ("/proc/", "/sys/")
"""Folders whose links may refer to objects without a path."""


class FileLayers:
    """Maps the paths that the script uses to the places of their contents during the run.

    A written path is at the same place under ``tree``, in the scratch folder. ``moved`` has the paths that the script
    removed (None) or renamed (their real place), while the real file system is unchanged; the nearest entry among a
    path and its ancestors counts. Three bytes in ``in_use`` are shared with workers and other ranks. They show if
    there is anything to look up, if the run has made symbolic links, and if it has fetched files. Links contain the
    path that the script gave, and are followed here, because the system would follow them to the user's files.
    """

    def __init__(self, scratch, policy):
        self.native = types.SimpleNamespace(
            builtin_open=builtins.open,
            **{name: getattr(os, name) for name in _NATIVE_NAMES.split() if hasattr(os, name)},
        )
        self.tree = os.path.join(scratch, "tree")
        self.policy = policy
        self.moved = {}
        self._folders = {os.sep: os.sep}
        """Real folders, with links followed, by the names that the script used."""
        self.in_use = _shared_bytes(os.path.join(scratch, _IN_USE))
        # A process that the run spawned must see the files that the run has written so far.
        if os.path.isdir(self.tree):
            self.in_use[0] = 1

    # Names of files.

    def canonical(self, path, follow=False):
        """The absolute path with the links of its folders followed; None if it is unknown.

        ``follow``: links of the last name too. Raises OSError if they form a loop.
        """
        try:
            text = os.fsdecode(path)
            if not os.path.isabs(text):
                text = os.path.join(self.getcwd(), text)
        except (TypeError, ValueError, OSError):
            return None
        found = self._placed(text)
        return self._followed(found, path) if follow else found

    def beside(self, path, folder):
        """The full path for a path relative to an open folder, as far as the system reports it."""
        if folder is None or isinstance(path, int):
            return path
        text = os.fsdecode(path)
        return text if os.path.isabs(text) else os.path.join(self.path_of(folder) or os.curdir, text)

    def path_of(self, descriptor):
        """The path of an open file as the script knows it; None if the system does not report it."""
        try:
            text = self.native.readlink(f"/proc/self/fd/{descriptor}")
        except (OSError, ValueError):
            return None
        return self.virtual(text) if os.path.isabs(text) else None

    def virtual(self, path):
        """The path as the script knows it, for a path that may be in the scratch tree."""
        if path.startswith(self.tree + os.sep):
            return path[len(self.tree) :]
        return path

    def getcwd(self):
        """The working folder as the script knows it."""
        return self.virtual(self.native.getcwd())

    def _placed(self, text):
        head, tail = os.path.split(os.path.normpath(self.virtual(text)))
        return os.path.join(self._real_folder(head), tail)

    def _followed(self, path, named):
        for _ in range(_MOST_LINKS):
            target = None if path.startswith(_KERNEL) else self._link_at(path)
            if target is None:
                return path
            target = self._placed(os.path.join(os.path.dirname(path), target))
            if target.startswith(_KERNEL):
                return path
            path = target
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), named)

    def _link_at(self, canonical):
        """The target of the symbolic link that the script sees at this path; None if there is none."""
        try:
            return self.native.readlink(self.locate(canonical) if self.in_use[0] else canonical)
        except (OSError, ValueError):
            return None

    def _real_folder(self, path, depth=0):
        # Links of the run can change at any time, also by other processes.
        if self.in_use[1]:
            return self._virtual_folder(path)
        known = self._folders.get(path)
        if known is None:
            parent, name = os.path.split(path)
            known = os.path.join(self._real_folder(parent, depth), name) if name else path
            try:
                target = self.native.readlink(known)
            except (OSError, ValueError):
                pass
            else:
                if depth < _MOST_LINKS:
                    known = self._real_folder(
                        os.path.normpath(os.path.join(os.path.dirname(known), target)), depth + 1
                    )
            if len(self._folders) > 10_000:
                self._folders = {os.sep: os.sep}
            self._folders[path] = known
        return known

    def _virtual_folder(self, path):
        """Like ``_real_folder``, but with the links of both layers."""
        waiting = path.strip(os.sep).split(os.sep)[::-1] if path != os.sep else []
        found, links = os.sep, 0
        while waiting:
            name = waiting.pop()
            if name in ("", os.curdir):
                continue
            if name == os.pardir:
                found = os.path.dirname(found)
                continue
            step = os.path.join(found, name)
            target = self._link_at(step)
            if target is None or links >= _MOST_LINKS:
                found = step
                continue
            links += 1
            target = self.virtual(target)
            found = os.sep if os.path.isabs(target) else found
            waiting.extend(target.strip(os.sep).split(os.sep)[::-1])
        return found

    def scratch_of(self, canonical):
        """The place of data that the run writes to this path."""
        return self.tree + canonical

    def real_of(self, canonical):
        """The real path of the file that the script sees at this path; None if the script removed it."""
        path, rest = canonical, ""
        while self.moved:
            if path in self.moved:
                source = self.moved[path]
                return None if source is None else source + rest
            parent, name = os.path.split(path)
            if not name:
                break
            path, rest = parent, os.sep + name + rest
        return canonical

    # Reading.

    def find(self, path, follow=True):
        """The path to read from when the script reads ``path``."""
        canonical = self.canonical(path, follow)
        if canonical is None:
            return path
        if self.policy.is_open_to_all(canonical):
            found = canonical
            if not self.in_use[1]:
                return path
        else:
            found = self.locate(canonical)
            same = found == canonical and not self.in_use[1]
            if same and (os.path.isabs(path) or self.native.getcwd() == self.getcwd()):
                return path
        return os.fsencode(found) if isinstance(path, bytes) else found

    def locate(self, canonical):
        """The real place of the file that the script sees at a canonical path."""
        scratch, real = self.scratch_of(canonical), self.real_of(canonical)
        if real is None:
            return scratch
        written = self.mode_of(scratch)
        if written is None or (stat.S_ISDIR(written) and stat.S_ISDIR(self.mode_of(real) or 0)):
            return real
        return scratch

    def exists(self, canonical):
        """True if the script sees anything at this path."""
        return self.mode_of(self.locate(canonical)) is not None

    def is_folder(self, canonical):
        """True if the script sees a folder at this path."""
        try:
            return stat.S_ISDIR(self.native.stat(self.locate(self._followed(canonical, canonical))).st_mode)
        except (OSError, ValueError):
            return False

    def names_in(self, canonical):
        """Names in a folder with their real places, from both layers; None if one layer has them all."""
        scratch, real = self.scratch_of(canonical), self.real_of(canonical)
        moved = {
            os.path.basename(path): at
            for path, at in self.moved.items()
            if os.path.dirname(path) == canonical
        }
        if not moved and (real is None or self.mode_of(scratch) is None):
            return None
        found = {}
        for folder in (real, scratch):
            try:
                names = self.native.listdir(folder) if folder is not None else ()
            except OSError:
                continue
            if folder == real:
                names = [name for name in names if name not in moved]
            found.update((name, os.path.join(folder, name)) for name in names)
            if folder == real:
                found.update((name, at) for name, at in moved.items() if at is not None)
        return found

    def is_empty(self, canonical):
        """True if the script sees nothing in a folder."""
        names = self.names_in(canonical)
        return not (self.native.listdir(self.locate(canonical)) if names is None else names)

    def mode_of(self, path):
        """The mode of a real path, without following links; None if it does not exist."""
        try:
            return self.native.lstat(path).st_mode
        except (OSError, ValueError):
            return None


def _shared_bytes(path):
    """Three bytes that all processes of the run share, since ranks write to the same tree."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return mmap.mmap(-1, 3)
    try:
        # The bytes are written, not only reserved: on a full disk, setting a reserved byte would kill the process.
        if not os.fstat(descriptor).st_size:
            os.write(descriptor, bytes(3))
        return mmap.mmap(descriptor, 3)
    except (OSError, ValueError):
        return mmap.mmap(-1, 3)
    finally:
        os.close(descriptor)
