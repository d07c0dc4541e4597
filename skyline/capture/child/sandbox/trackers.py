"""Switches off experiment trackers by their own settings, so that measuring creates no run in an account."""

from __future__ import annotations

import os
import sys

from .. import user_code
from .import_hooks import after_import

_SWITCHES = {
    "WANDB_MODE": "disabled",
    "COMET_START_ONLINE": "0",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "disabled",
    "TRACKIO_DIR": "{scratch}/trackio",
    "COMET_OFFLINE_DIRECTORY": "{scratch}/comet",
    "CLEARML_CACHE_DIR": "{scratch}/clearml",
    "MLFLOW_TRACKING_URI": "file:{scratch}/mlruns",
}
_NAMES = {
    "wandb": "W&B",
    "comet_ml": "Comet",
    "neptune": "Neptune",
    "clearml": "ClearML",
    "swanlab": "SwanLab",
    "mlflow": "MLflow",
    "trackio": "Trackio",
}
_HOSTS = (".wandb.ai", ".comet.com", ".comet.ml", ".neptune.ai", ".clear.ml", ".swanlab.cn")


def is_tracker_host(host):
    """True if a network name belongs to a tracker's service."""
    return ("." + host).endswith(_HOSTS)


def hold_back(scratch, log):
    """Set every tracker's switch, and log the trackers that the script imports."""
    for name, value in _SWITCHES.items():
        os.environ[name] = value.replace("{scratch}", scratch)
    for module, name in _NAMES.items():
        after_import(module, lambda _, name=name: log.note("tracker", name, "held back"))
    after_import("mlflow", _keep_mlflow_local)


def allow(log):
    """Leave trackers enabled, and log those that the script imports."""
    if os.environ.get("WANDB_MODE") == "disabled":
        return
    for module, name in _NAMES.items():
        if module not in sys.modules:
            after_import(module, lambda _, name=name: log.note("tracker", name, "allowed"))


def _keep_mlflow_local(mlflow):
    """Disable ``set_tracking_uri``: an address that the script sets would override the switch."""
    mlflow.set_tracking_uri = lambda uri=None: None


_OTHERS = (
    *(part.replace("/", os.sep) for part in ("/torch/_inductor/", "/torch/_dynamo/", "/triton/")),
    os.path.join(user_code.FOLDER, "recording", "recorder.py"),
)
_FRAMES = 12


def hold_profilers(log):
    """Make profilers that the script starts record nothing; all their calls still work."""
    after_import("torch.autograd.profiler", lambda module: _hold_profiler(module, log))


def _hold_profiler(module, log):
    real = module.profile

    class profile(real):
        """A profiler that starts and stops without recording, and has no events."""

        def __enter__(self):
            self._prepare_trace()
            return self

        def _prepare_trace(self):
            self.entered = True
            # The name depends on the version of PyTorch.
            self._function_events = self.__dict__["function_events"] = module.EventList([], use_device=None)
            self._function_events._build_tree()

        def _start_trace(self):
            pass

        def __exit__(self, *_):
            return False

        def export_chrome_trace(self, path, *_):
            with open(path, "w") as file:
                file.write('{"traceEvents": []}')

        def export_stacks(self, path, *_, **__):
            with open(path, "w"):
                pass

        def toggle_collection_dynamic(self, *_):
            pass

    def __new__(cls, *_, **__):
        if cls is real and _started_by_script():
            log.note("profiler", "torch.profiler", "held back")
            cls = profile
        return object.__new__(cls)

    real.__new__ = __new__


def _started_by_script():
    frame = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return True
        if any(part in frame.f_code.co_filename for part in _OTHERS):
            return False
        frame = frame.f_back
    return True
