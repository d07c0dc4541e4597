"""Decides which writes are real while a script is profiled (writes to caches), and which belong to downloads."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile

from .. import user_code

_DEVICES = ("/dev/", "/proc/", "/sys/")
_CACHE_VARIABLES = (
    "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE",
    "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME",
    "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR", "MPLCONFIGDIR", "PYTHONPYCACHEPREFIX",
)  # fmt: skip
_SHARED = ("~/.cache", "~/Library/Caches")
"""Folders with the caches of all programs of a user, including browsers and Skyline itself."""
_WITHIN_SHARED = (
    "clip", "comgr", "datasets", "flashinfer", "fontconfig", "huggingface", "jax", "kagglehub", "keras",
    "matplotlib", "mesa_shader_cache", "mesa_shader_cache_db", "miopen", "numba", "nvidia", "open_clip",
    "tilelang", "torch", "torch_extensions", "torch_geometric", "triton", "vllm", "whisper",
)  # fmt: skip
"""Cache folders in ``_SHARED`` of libraries that training scripts use."""
_CACHE_FOLDERS = (
    "~/.triton", "~/.nv", "~/.config/matplotlib", "~/.matplotlib", "~/.keras", "~/nltk_data",
    "~/scikit_learn_data",
)  # fmt: skip
_DOWNLOADERS = tuple(
    part.replace("/", os.sep)
    for part in (
        "urllib/request.py",
        "torch/hub.py",
        "torchvision/datasets/",
        "torchaudio/datasets/",
        "torchtext/",
        "torch_geometric/data/download.py",
        "huggingface_hub/file_download.py",
        "huggingface_hub/_snapshot_download.py",
        "datasets/builder.py",
        "datasets/download/",
        "datasets/utils/file_utils.py",
        "gdown/",
        "kagglehub/",
        "wget.py",
        "sklearn/datasets/",
        "nltk/downloader.py",
        "tiktoken/",
    )
)
"""Paths within the folder of installed libraries, or of the standard library."""
_MADE = (("torch", "torch"), ("huggingface", "huggingface_hub"), ("matplotlib", "matplotlib"))
"""Cache folders that are created in the shared folder if they are missing and the library is installed.

Native code looks for its files there, so that they cannot be in the scratch folder under another path.
"""
_TRITON = ("~/.triton", "triton")
_NVIDIA = ("~/.nv", "/dev/nvidiactl")
_PACKAGES = (os.sep + "site-packages", os.sep + "dist-packages")
_MOST_FRAMES = 120
_KNOWN_DOWNLOADERS = {}


class WritePolicy:
    """Decides by the written path and by the code that writes."""

    def __init__(self, scratch, near):
        """``near`` are folders of the user (the script's and the working folder), which are never a cache."""
        self._own = (scratch + os.sep, *_DEVICES)
        roots = [os.environ[name] for name in _CACHE_VARIABLES if os.environ.get(name)]
        roots += [os.path.join(shared, name) for shared in _shared() for name in _WITHIN_SHARED]
        roots += [os.path.expanduser(folder) for folder in _CACHE_FOLDERS]
        roots.append(os.path.join(tempfile.gettempdir(), "torchinductor_" + user_name()))
        own = [os.path.join(shared, "skyline") for shared in _shared()]
        near = [os.path.realpath(folder) + os.sep for folder in (*near, *own)]
        roots = dict.fromkeys(os.path.realpath(root) for root in roots)
        self._caches = tuple(
            root for root in roots if not any(path.startswith(root + os.sep) for path in near)
        )
        self._prefixes = tuple(root + os.sep for root in self._caches)

    def make_caches(self):
        """Create the cache folders that will be needed, and return all existing ones; only these count from now on."""
        wanted = [os.environ[name] for name in _CACHE_VARIABLES if os.environ.get(name)]
        wanted += [os.path.join(_shared()[0], name) for name, library in _MADE if _is_installed(library)]
        wanted += [_TRITON[0]] if _is_installed(_TRITON[1]) else []
        wanted += [_NVIDIA[0]] if os.path.exists(_NVIDIA[1]) else []
        for folder in [os.path.realpath(os.path.expanduser(folder)) for folder in wanted]:
            if folder in self._caches:
                with contextlib.suppress(OSError):
                    os.makedirs(folder, 0o700, exist_ok=True)
        self._caches = tuple(root for root in self._caches if os.path.isdir(root))
        self._prefixes = tuple(root + os.sep for root in self._caches)
        return self._caches

    def is_open_to_all(self, path):
        """True for devices and for the run's own scratch folder."""
        return path.startswith(self._own)

    def is_cache(self, path):
        """True if a path is in a folder in which libraries store downloads and compiled code."""
        return (path + os.sep).startswith(self._prefixes)

    def is_library_cache(self, path):
        """True if a library stores its own files there: fonts, compiled kernels, downloaded models."""
        return self.is_cache(path) and not written_by_user()


def _shared():
    own = os.environ.get("XDG_CACHE_HOME")
    return (*((own,) if own else ()), *map(os.path.expanduser, _SHARED))


def written_by_user():
    """True if the call came from user code, directly or only through the standard library."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if user_code.is_user_file(name):
            return True
        if ("site-packages" in name or "dist-packages" in name) and not name.startswith(user_code.FOLDER):
            return False
        frame = frame.f_back
    return False


def is_download():
    """True if a library that downloads data or models is on the stack between user code and this write."""
    frame = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return False
        name = frame.f_code.co_filename
        if user_code.is_user_file(name):
            return False
        known = _KNOWN_DOWNLOADERS.get(name)
        if known is None:
            known = _KNOWN_DOWNLOADERS[name] = is_downloader(name)
        if known:
            return True
        frame = frame.f_back
    return False


def is_downloader(file):
    """True if a source file belongs to an installed downloader; a user's folder with such a name does not count."""
    real = os.path.realpath(file)
    # Longest first, since installed libraries are within the folder of the standard library.
    added = (os.path.realpath(entry) + os.sep for entry in sys.path if entry.endswith(_PACKAGES))
    for prefix in sorted((*user_code.LIBRARY_PREFIXES, *added), key=len, reverse=True):
        if real.startswith(prefix):
            return real[len(prefix) :].startswith(_DOWNLOADERS)
    return False


def user_name():
    """The user name that PyTorch's compiler uses in the name of its cache folder."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "user"


def _is_installed(library):
    try:
        return importlib.util.find_spec(library) is not None
    except (ImportError, ValueError):
        return False
