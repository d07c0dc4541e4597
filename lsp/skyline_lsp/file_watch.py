"""Detects writes to watched files by any program."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from watchdog.events import (
    DirCreatedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.polling import PollingObserver

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

logger = logging.getLogger(__name__)

_SAVES = (FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileClosedEvent)


class FileWatch:
    """Watches the folders of the files, because a save may replace the file. ``on_save`` runs on another thread."""

    def __init__(self, on_save: Callable[[str], None]) -> None:
        self._on_save = on_save
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._whole: set[str] = set()
        self._lock = threading.Lock()
        self._observer: BaseObserver | None = None

    def add(self, paths: Iterable[str]) -> None:
        """Watch further files, given by real path. Files in missing folders are skipped."""
        new = set(paths) - self._files
        with self._lock:
            self._files |= new
        for folder in {os.path.dirname(path) for path in new} - self._folders:
            if os.path.isdir(folder):
                self._watch(folder)

    def add_folder(self, folder: str) -> None:
        """Watch all files of a folder, given by real path.

        If the folder does not exist yet, watching starts at its creation, provided that its parent is watched.
        """
        with self._lock:
            self._whole.add(folder)
        if os.path.isdir(folder) and folder not in self._folders:
            self._watch(folder)

    def close(self) -> None:
        """Stop watching."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(2)
            self._observer = None

    def _watch(self, folder: str) -> None:
        handler = _Handler(self._saved, self._made)
        try:
            if self._observer is None:
                self._observer = Observer()
                self._observer.start()
            self._observer.schedule(handler, folder)
        except OSError as error:
            # The usual cause is the system's limit on watches. Polling every second still works.
            logger.warning("cannot watch %s (%s): polling instead", folder, error)
            self._poll(handler, folder)
        self._folders.add(folder)

    def _poll(self, handler: FileSystemEventHandler, folder: str) -> None:
        self.close()
        self._observer = PollingObserver()
        self._observer.start()
        for known in (*self._folders, folder):
            self._observer.schedule(handler, known)

    def _saved(self, path: str) -> None:
        with self._lock:
            watched = path in self._files or os.path.dirname(path) in self._whole
        if watched:
            self._on_save(path)

    def _made(self, folder: str) -> None:
        """Handle the creation of a folder. Runs on the observer's thread."""
        with self._lock:
            wanted = folder in self._whole
        if wanted and folder not in self._folders and os.path.isdir(folder):
            self._watch(folder)
            # Files written before the watch started caused no event.
            for name in os.listdir(folder):
                self._on_save(os.path.join(folder, name))


class _Handler(FileSystemEventHandler):
    """Maps the events of a save to the saved path."""

    def __init__(self, saved: Callable[[str], None], made: Callable[[str], None]) -> None:
        self._saved = saved
        self._made = made

    def on_any_event(self, event: FileSystemEvent) -> None:
        if isinstance(event, DirCreatedEvent):
            self._made(os.path.realpath(os.fsdecode(event.src_path)))
        if isinstance(event, _SAVES):
            # Editors that save atomically move a new file into place: use the destination.
            name = os.fsdecode(event.dest_path or event.src_path)
            self._saved(os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name)))
