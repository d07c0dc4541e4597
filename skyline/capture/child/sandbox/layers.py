"""Two layers of files, the real ones and the run's own above them, and what the script sees of both."""

from __future__ import annotations

import builtins
import mmap
import os
import stat
import types

_NATIVE_NAMES = (
    "access chdir chmod chown close getcwd getxattr lchown link listdir listxattr lstat mkdir mkfifo mknod open "
    "readlink remove removexattr rename replace rmdir scandir setxattr stat statvfs symlink truncate unlink utime "
    "write"
)

_IN_USE = "in-use"


class Layers:
    """Maps the paths that the script uses to where their contents are for the length of the run.

    A path that was written lies at the same place under ``tree``, in the scratch folder. ``moved`` says of
    paths that were removed (None) or renamed (where they really are) what the real file system still shows
    otherwise; the nearest entry among a path and its ancestors counts. Nothing of the person's is changed,
    and one byte that workers and other ranks share tells whether there is anything to look up at all.
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
        """Folders by the names that the script used, links followed."""
        self.in_use = _shared_byte(os.path.join(scratch, _IN_USE))
        # A process that the run spawned finds what the run has written so far.
        if os.path.isdir(self.tree):
            self.in_use[0] = 1

    # Names of things.

    def canonical(self, path):
        """The absolute path with the links of its folders followed; None where there is no telling."""
        try:
            text = os.fsdecode(path)
            if not os.path.isabs(text):
                text = os.path.join(self.getcwd(), text)
        except (TypeError, ValueError, OSError):
            return None
        head, tail = os.path.split(os.path.normpath(self.virtual(text)))
        return os.path.join(self._real_folder(head), tail)

    def virtual(self, path):
        """The path as the script knows it, for one that may lie in the scratch tree."""
        if path.startswith(self.tree + os.sep):
            return path[len(self.tree) :]
        return path

    def getcwd(self):
        """The working folder as the script knows it."""
        return self.virtual(self.native.getcwd())

    def _real_folder(self, path, depth=0):
        known = self._folders.get(path)
        if known is None:
            parent, name = os.path.split(path)
            known = os.path.join(self._real_folder(parent, depth), name) if name else path
            try:
                target = self.native.readlink(known)
            except (OSError, ValueError):
                pass
            else:
                if depth < 40:
                    known = self._real_folder(
                        os.path.normpath(os.path.join(os.path.dirname(known), target)), depth + 1
                    )
            if len(self._folders) > 10_000:
                self._folders = {os.sep: os.sep}
            self._folders[path] = known
        return known

    def scratch_of(self, canonical):
        """Where what the run writes to this path lies."""
        return self.tree + canonical

    def real_of(self, canonical):
        """Where the real file system shows what the script sees at this path; None where it was removed."""
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

    def find(self, path):
        """The path to use for reading what the script names by ``path``."""
        canonical = self.canonical(path)
        if canonical is None or self.policy.is_open_to_all(canonical):
            return path
        found = self.locate(canonical)
        if found == canonical and (os.path.isabs(path) or self.native.getcwd() == self.getcwd()):
            return path
        return os.fsencode(found) if isinstance(path, bytes) else found

    def locate(self, canonical):
        """Where what the script sees at a canonical path really is."""
        scratch, real = self.scratch_of(canonical), self.real_of(canonical)
        if real is None:
            return scratch
        written = self.mode_of(scratch)
        if written is None or (stat.S_ISDIR(written) and stat.S_ISDIR(self.mode_of(real) or 0)):
            return real
        return scratch

    def exists(self, canonical):
        """Whether the script sees anything there."""
        return self.mode_of(self.locate(canonical)) is not None

    def is_folder(self, canonical):
        """Whether the script sees a folder there."""
        try:
            return stat.S_ISDIR(self.native.stat(self.locate(canonical)).st_mode)
        except (OSError, ValueError):
            return False

    def names_in(self, canonical):
        """Names in a folder and where each really is, both layers together; None where one layer has it all."""
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
        """Whether the script sees nothing in a folder."""
        names = self.names_in(canonical)
        return not (self.native.listdir(self.locate(canonical)) if names is None else names)

    def mode_of(self, path):
        """The mode of a real path, links not followed; None where there is nothing."""
        try:
            return self.native.lstat(path).st_mode
        except (OSError, ValueError):
            return None


def _shared_byte(path):
    """One byte that all processes of the run have in common: ranks write to the same tree."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return mmap.mmap(-1, 1)
    try:
        # Written and not only reserved: on a full disk a reserved byte would end the process when it is set.
        if not os.fstat(descriptor).st_size:
            os.write(descriptor, b"\0")
        return mmap.mmap(descriptor, 1)
    except (OSError, ValueError):
        return mmap.mmap(-1, 1)
    finally:
        os.close(descriptor)
