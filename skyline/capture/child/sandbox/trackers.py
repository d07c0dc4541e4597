"""Experiment trackers: switched off by their own means, so that measuring a script makes no run in an account."""

from __future__ import annotations

import os
import sys

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
    """Whether a network name belongs to a tracker's service."""
    return ("." + host).endswith(_HOSTS)


def hold_back(scratch, log):
    """Set every tracker's switch, and note those that the script then imports."""
    for name, value in _SWITCHES.items():
        os.environ[name] = value.replace("{scratch}", scratch)
    for module, name in _NAMES.items():
        after_import(module, lambda _, name=name: log.note("tracker", name, "held back"))
    after_import("mlflow", _keep_mlflow_local)


def allow(log):
    """Leave them alone, and note those that the script imports."""
    if os.environ.get("WANDB_MODE") == "disabled":
        return
    for module, name in _NAMES.items():
        if module not in sys.modules:
            after_import(module, lambda _, name=name: log.note("tracker", name, "allowed"))


def _keep_mlflow_local(mlflow):
    """An address that the script sets itself would override the switch."""
    mlflow.set_tracking_uri = lambda uri=None: None
