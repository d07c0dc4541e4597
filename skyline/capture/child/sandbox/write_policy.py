"""Which writes happen for real while a script is profiled: those to caches, and what a download fills."""

from __future__ import annotations

import os
import sys
import tempfile

from .. import user_code

_DEVICES = ("/dev/", "/proc/", "/sys/")
_CACHE_VARIABLES = (
    "XDG_CACHE_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_DATASETS_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "TRANSFORMERS_CACHE",
    "TORCH_HOME",
    "TORCH_EXTENSIONS_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "TRITON_HOME",
    "CUDA_CACHE_PATH",
    "NUMBA_CACHE_DIR",
    "MPLCONFIGDIR",
    "PYTHONPYCACHEPREFIX",
)
_CACHE_FOLDERS = (
    "~/.cache",
    "~/Library/Caches",
    "~/.triton",
    "~/.nv",
    "~/.config/matplotlib",
    "~/.matplotlib",
    "~/.keras",
    "~/nltk_data",
    "~/scikit_learn_data",
)
_DOWNLOADERS = tuple(
    part.replace("/", os.sep)
    for part in (
        "/urllib/request.py",
        "/torch/hub.py",
        "/torchvision/datasets/",
        "/torchaudio/datasets/",
        "/torchtext/",
        "/torch_geometric/data/download.py",
        "/huggingface_hub/file_download.py",
        "/huggingface_hub/_snapshot_download.py",
        "/site-packages/datasets/builder.py",
        "/site-packages/datasets/download/",
        "/site-packages/datasets/utils/file_utils.py",
        "/gdown/",
        "/kagglehub/",
        "/wget.py",
        "/sklearn/datasets/",
        "/nltk/downloader.py",
        "/tiktoken/",
    )
)
_MOST_FRAMES = 120


class WritePolicy:
    """Decides by the place that is written and by who writes there."""

    def __init__(self, scratch, near):
        """``near`` are folders of the person's (the script's, the working one): never taken for a cache."""
        self._own = (scratch + os.sep, *_DEVICES)
        roots = [os.environ[name] for name in _CACHE_VARIABLES if os.environ.get(name)]
        roots += [os.path.expanduser(folder) for folder in _CACHE_FOLDERS]
        roots.append(os.path.join(tempfile.gettempdir(), "torchinductor_"))
        near = [os.path.realpath(folder) + os.sep for folder in near]
        caches = [os.path.realpath(root) + ("" if root.endswith("_") else os.sep) for root in roots]
        caches += user_code.LIBRARY_PREFIXES
        self._caches = tuple(root for root in caches if not any(path.startswith(root) for path in near))

    def is_open_to_all(self, path):
        """Devices and the run's own scratch folder."""
        return path.startswith(self._own)

    def is_library_cache(self, path):
        """Whether a library keeps its own files there: fonts, compiled kernels, downloaded models."""
        return (path + os.sep).startswith(self._caches) and not written_by_user()


def written_by_user(frame=None):
    """Whether the call came from the person's code, directly or through the standard library only."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if user_code.is_user_file(name):
            return True
        if ("site-packages" in name or "dist-packages" in name) and not name.startswith(user_code.FOLDER):
            return False
        frame = frame.f_back
    return False


def is_download(frame=None):
    """Whether a library that fetches data or models is at work somewhere up the stack."""
    frame = frame or sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return False
        if any(part in frame.f_code.co_filename for part in _DOWNLOADERS):
            return True
        frame = frame.f_back
    return False
