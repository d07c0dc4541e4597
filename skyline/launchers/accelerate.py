"""``accelerate launch train.py``: its options and its configuration file become ranks and environment variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from skyline.errors import UsageError
from skyline.launchers.asked import Asked, Options, options_before_script
from skyline.source.settings_file import entries
from skyline.source.text import SourceText

FLAGS = {
    *("-h", "--help", "-q", "--quiet", "--cpu", "--multi-gpu", "--tpu", "--use-mps-device", "--debug"),
    *("--no-python", "--same-network", "--use-deepspeed", "--use-fsdp", "--use-megatron-lm", "--use-xpu"),
    *("--ipex", "--dynamo-use-fullgraph", "--dynamo-use-dynamic", "--dynamo-use-regional-compilation"),
    *("--enable-cpu-affinity", "--tpu-cluster", "--no-tpu-cluster", "--tpu-use-sudo"),
    *("--use-parallelism-config", "--fp8-use-autocast-during-eval", "--downcast-bf16"),
}
"""Options without a value."""
_ELSEWHERE = {
    "--use-deepspeed": "DeepSpeed's plugin",
    "--use-fsdp": "sharded data parallelism",
    "--use-megatron-lm": "Megatron-LM",
    "--tpu": "TPUs",
}
_KINDS = {
    "DEEPSPEED": "--use-deepspeed",
    "FSDP": "--use-fsdp",
    "MEGATRON_LM": "--use-megatron-lm",
    "XLA": "--tpu",
}
"""The option for each ``distributed_type`` of a configuration file."""
_CONFIG_NAMES = ("default_config.yaml", "default_config.yml", "default_config.json")


def accelerate(words: Sequence[str], folder: Path) -> Asked:
    """The script that ``accelerate launch`` starts; Skyline starts the ranks itself, all on this machine."""
    if not words or words[0] != "launch":
        asked = f"accelerate {words[0]}" if words else "accelerate"
        raise UsageError(
            f"{asked} starts no training", hint="Example: skyline profile accelerate launch train.py"
        )
    return accelerate_launch(words[1:], folder)


def accelerate_launch(words: Sequence[str], folder: Path) -> Asked:
    """The script of ``accelerate-launch`` and ``python -m accelerate.commands.launch``."""
    options = options_before_script(words, FLAGS)
    config = _config(options, folder)
    options.one_machine("--num-machines")
    if config.get("num_machines", "1") != "1":
        raise UsageError("Only training on one machine can be profiled", hint="Run it with --num_machines 1.")
    kind = config.get("distributed_type", "NO").upper()
    for name, words_for in _ELSEWHERE.items():
        if name in options.values or name == _KINDS.get(kind):
            raise UsageError(
                f"{name} is not supported: a profile of {words_for} under accelerate is not possible yet",
                hint="Profile the script without it, for example: accelerate launch --num_processes 2 train.py",
            )
    ranks = options.number("--num-processes")
    if ranks is None:
        told = config.get("num_processes", "1")
        ranks = int(told) if told.isdigit() and int(told) else 1
    on_cpu = "--cpu" in options.values or config.get("use_cpu", "false").lower() == "true"
    # For the CPU, accelerate starts a single process, whatever number is given.
    return Asked(options.rest, 1 if on_cpu else ranks, variables=_variables(options, config, on_cpu))


def _variables(options: Options, config: dict[str, str], on_cpu: bool) -> tuple[tuple[str, str], ...]:
    """The environment of the script, as accelerate sets it for these options."""
    precision = options.values.get("--mixed-precision") or config.get("mixed_precision", "")
    found = {
        "ACCELERATE_USE_CPU": "true" if on_cpu else "",
        "ACCELERATE_MIXED_PRECISION": precision.lower(),
        "ACCELERATE_DYNAMO_BACKEND": options.values.get("--dynamo-backend", "").upper(),
    }
    return tuple((name, value) for name, value in found.items() if value)


def _config(options: Options, folder: Path) -> dict[str, str]:
    """The entries of the given configuration file, or of the one that ``accelerate config`` wrote."""
    asked = options.values.get("--config-file")
    if asked:
        path = folder / asked
        if not path.is_file():
            raise UsageError(f"{asked} does not exist", hint="Check the path after --config_file.")
    elif "--cpu" in options.values:
        return {}  # accelerate ignores its own file in this case
    else:
        cache = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface") / "accelerate"
        found = [cache / name for name in _CONFIG_NAMES if (cache / name).is_file()]
        if not found:
            return {}
        path = found[0]
    read = entries(str(path), SourceText.read(path).text)
    return {entry.key: entry.text.strip("\"'") for entry in read}
