"""Which writes happen for real while a script is profiled: those to caches. And which ones a download makes."""

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
"""Where all programs of a person keep their caches, browsers and Skyline itself among them."""
_WITHIN_SHARED = (
    "clip", "comgr", "datasets", "flashinfer", "fontconfig", "huggingface", "jax", "kagglehub", "keras",
    "matplotlib", "mesa_shader_cache", "mesa_shader_cache_db", "miopen", "numba", "nvidia", "open_clip",
    "tilelang", "torch", "torch_extensions", "torch_geometric", "triton", "vllm", "whisper",
)  # fmt: skip
"""The folders there of the libraries that training scripts use."""
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
"""Places within the folder of installed libraries, or of the standard one."""
_MADE = (("torch", "torch"), ("huggingface", "huggingface_hub"), ("matplotlib", "matplotlib"))
"""Cache folders that are made in the shared one where they are missing and the library is installed.

Native code looks for its files there, so that they cannot lie in the scratch folder under another path.
"""
_TRITON = ("~/.triton", "triton")
_NVIDIA = ("~/.nv", "/dev/nvidiactl")
_PACKAGES = (os.sep + "site-packages", os.sep + "dist-packages")
_MOST_FRAMES = 120
_KNOWN_DOWNLOADERS = {}


class WritePolicy:
    """Decides by the place that is written and by who writes there."""

    def __init__(self, scratch, near):
        """``near`` are folders of the person's (the script's, the working one): never taken for a cache."""
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
        """Make the cache folders that will be needed, and hold to those that there are; gives them."""
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
        """Devices and the run's own scratch folder."""
        return path.startswith(self._own)

    def is_cache(self, path):
        """True if a path lies in a folder where libraries keep what they fetch and compile."""
        return (path + os.sep).startswith(self._prefixes)

    def is_library_cache(self, path):
        """True if a library keeps its own files there: fonts, compiled kernels, downloaded models."""
        return self.is_cache(path) and not written_by_user()


def _shared():
    own = os.environ.get("XDG_CACHE_HOME")
    return (*((own,) if own else ()), *map(os.path.expanduser, _SHARED))


def written_by_user():
    """True if the call came from the person's code, directly or through the standard library only."""
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
    """True if a library that fetches data or models writes here: nearer up the stack than the person's code."""
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
    """True if a source file belongs to a downloader that is installed; a folder of that name is none."""
    real = os.path.realpath(file)
    # The longest first: installed libraries lie within the folder of the standard one.
    added = (os.path.realpath(entry) + os.sep for entry in sys.path if entry.endswith(_PACKAGES))
    for prefix in sorted((*user_code.LIBRARY_PREFIXES, *added), key=len, reverse=True):
        if real.startswith(prefix):
            return real[len(prefix) :].startswith(_DOWNLOADERS)
    return False


def user_name():
    """The name that PyTorch's compiler puts into that of its cache folder."""
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
