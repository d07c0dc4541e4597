"""Training scripts that store batch size, workers and accumulation in different places."""

from __future__ import annotations

from dataclasses import dataclass, field

BATCH_SIZE, WORKERS, ACCUMULATION = 12, 1, 2
"""The values in all scripts."""


@dataclass(frozen=True, slots=True)
class SettingScript:
    """A script ``train.py`` with other files by name. ``home`` is the file with its settings.

    ``needs`` are modules that it imports. ``written`` False: arguments set the values, and no file has them.
    """

    name: str
    script: str
    home: str = "train.py"
    files: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    written: bool = True


_HEAD = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

def train(batch_size, num_workers, accumulation_steps):
    data = TensorDataset(torch.randn(2400, 8), torch.randn(2400, 1))
    loader = DataLoader(data, batch_size=batch_size, num_workers=num_workers)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(1000):
        for step, (x, y) in enumerate(loader, 1):
            loss = (model(x) - y).square().mean() / accumulation_steps
            loss.backward()
            if step % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()

"""
_YAML = """\
# Settings of the training.
train:
  batch_size: 12   # per device
  accumulation_steps: 2  # optimizer step after so many

data: {path: "data # not a comment", num_workers: 1}
eval:
  batch_size: 64
"""
_JSON = '{\n    "train": {"batch_size": 12,   "accumulation_steps": 2},\n  "data":{"num_workers" :1}\n}\n'
_TOML = """\
# Settings of the training.
[train]
batch_size = 12      # per device
accumulation_steps = 2

[data]
loader = { num_workers = 1, path = "data" }  # inline
"""
_READ = """
here = pathlib.Path(__file__).parent
if __name__ == "__main__":
"""
_FROM_MAPPING = (
    'train(config["train"]["batch_size"], config["data"]["num_workers"], '
    'config["train"]["accumulation_steps"])\n'
)
_FROM_OBJECT = "train(config.train.batch_size, config.data.num_workers, config.train.accumulation_steps)\n"
_TRAINING_ARGUMENTS = """\
import pathlib
import torch
from transformers import HfArgumentParser, Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x) - labels).square().mean()}

data = [{"x": torch.randn(8), "labels": torch.randn(1)} for _ in range(4800)]
here = pathlib.Path(__file__).parent
"""
_TRAINER = "Trainer(model=Model(), args=args, train_dataset=data).train()\n"
_LIGHTNING = """\
import torch
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI
from torch.utils.data import DataLoader, TensorDataset

class Data(LightningDataModule):
    def __init__(self, batch_size: int = 12, num_workers: int = 0):
        super().__init__()
        self.batch_size, self.num_workers = batch_size, num_workers

    def train_dataloader(self):
        data = TensorDataset(torch.randn(2400, 8), torch.randn(2400, 1))
        return DataLoader(data, batch_size=self.batch_size, num_workers=self.num_workers)

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        x, y = batch
        return (self.layer(x) - y).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

if __name__ == "__main__":
    LightningCLI(Model, Data, save_config_callback=None)
"""
_LIGHTNING_YAML = """\
trainer:
  max_epochs: 1000
  accelerator: cpu
  logger: false
  enable_checkpointing: false
  enable_progress_bar: false
  accumulate_grad_batches: 2  # as in the paper
data:
  batch_size: 12
  num_workers: 1
"""
_SPAWN = """
import os
import torch.distributed as dist
import torch.multiprocessing as mp

def worker(rank, meet, batch_size, num_workers, accumulation_steps):
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=meet)
    train(batch_size, num_workers, accumulation_steps)

if __name__ == "__main__":
    batch_size = 12  # of each rank
    num_workers = 1
    accumulation_steps = 2
    mp.spawn(worker, args=(os.environ["MEET"], batch_size, num_workers, accumulation_steps), nprocs=2)
"""

SCRIPTS = (
    SettingScript(
        "variables",
        _HEAD
        + "batch_size, num_workers = 12, 1\naccumulation_steps = 2\n"
        + "train(batch_size, num_workers, accumulation_steps)\n",
    ),
    SettingScript(
        "argparse default",
        "import argparse\n"
        + _HEAD
        + "parser = argparse.ArgumentParser()\n"
        + 'parser.add_argument("--batch-size", "-b", type=int, default=12)  # per device\n'
        + 'parser.add_argument("--num-workers", type=int, default=1)\n'
        + 'parser.add_argument("--accumulation-steps", type=int, default=2)\n'
        + "args = parser.parse_args()\n"
        + "train(args.batch_size, args.num_workers, args.accumulation_steps)\n",
    ),
    SettingScript(
        "click default",
        "import click\n"
        + _HEAD
        + "@click.command()\n"
        + '@click.option("--batch-size", default=12, show_default=True)  # per device\n'
        + '@click.option("--num-workers", default=1)\n'
        + '@click.option("--accumulation-steps", default=2)\n'
        + "def main(batch_size, num_workers, accumulation_steps):\n"
        + "    train(batch_size, num_workers, accumulation_steps)\n\n"
        + "main()\n",
        needs=("click",),
    ),
    SettingScript(
        "dataclass default",
        "from dataclasses import dataclass, field\n"
        + _HEAD
        + "@dataclass\nclass Config:\n    batch_size: int = 12  # per device\n    num_workers: int = 1\n"
        + "    accumulation_steps: int = field(default=2)\n\n"
        + "config = Config()\n"
        + "train(config.batch_size, config.num_workers, config.accumulation_steps)\n",
    ),
    SettingScript(
        "YAML",
        "import pathlib\nimport yaml\n"
        + _HEAD
        + _READ
        + '    config = yaml.safe_load((here / "config.yaml").read_text())\n    '
        + _FROM_MAPPING,
        "config.yaml",
        {"config.yaml": _YAML},
        ("yaml",),
    ),
    SettingScript(
        "YAML, anchors and merged keys",
        "import pathlib\nimport yaml\n"
        + _HEAD
        + _READ
        + '    config = yaml.safe_load((here / "config.yaml").read_text())\n    '
        + _FROM_MAPPING,
        "config.yaml",
        {
            "config.yaml": "defaults: &defaults\n  accumulation_steps: 2\nsize: &size 12  # for both\ntrain:\n"
            "  <<: *defaults\n  batch_size: *size\ndata:\n  num_workers: 1\n"
        },
        ("yaml",),
    ),
    SettingScript(
        "JSON",
        "import json, pathlib\n"
        + _HEAD
        + _READ
        + '    config = json.loads((here / "config.json").read_text())\n    '
        + _FROM_MAPPING,
        "config.json",
        {"config.json": _JSON},
    ),
    SettingScript(
        "TOML",
        "import pathlib, tomllib\n"
        + _HEAD
        + _READ
        + '    config = tomllib.loads((here / "config.toml").read_text())\n'
        + '    config["data"].update(config["data"]["loader"])\n    '
        + _FROM_MAPPING,
        "config.toml",
        {"config.toml": _TOML},
        ("tomllib",),
    ),
    SettingScript(
        "OmegaConf",
        "import pathlib\nfrom omegaconf import OmegaConf\n"
        + _HEAD
        + _READ
        + '    config = OmegaConf.load(here / "config.yaml")\n    '
        + _FROM_OBJECT,
        "config.yaml",
        {"config.yaml": _YAML},
        ("omegaconf",),
    ),
    SettingScript(
        "OmegaConf interpolation",
        "import pathlib\nfrom omegaconf import OmegaConf\n"
        + _HEAD
        + _READ
        + '    config = OmegaConf.load(here / "config.yaml")\n    '
        + _FROM_OBJECT,
        "config.yaml",
        {
            "config.yaml": "samples: 12  # of each device\nhost:\n  cores: 1\n  gather: 2\ntrain:\n"
            "  batch_size: ${samples}\n  accumulation_steps: ${host.gather}\ndata:\n  num_workers: ${..host.cores}\n"
        },
        ("omegaconf",),
    ),
    SettingScript(
        "Hydra",
        "import hydra\n"
        + _HEAD
        + '@hydra.main(version_base=None, config_path="conf", config_name="config")\n'
        + "def main(config):\n    "
        + _FROM_OBJECT
        + "\nmain()\n",
        "conf/config.yaml",
        {"conf/config.yaml": _YAML},
        ("hydra",),
    ),
    SettingScript(
        "Hydra, group and interpolation",
        "import hydra\n"
        + _HEAD
        + '@hydra.main(version_base=None, config_path="conf", config_name="config")\n'
        + "def main(config):\n    "
        + _FROM_OBJECT
        + "\nmain()\n",
        "conf/data/small.yaml",
        {
            "conf/config.yaml": "defaults:\n  - data: small\n  - _self_\n"
            "train:\n  batch_size: ${data.samples}\n  accumulation_steps: ${data.gather}\n",
            "conf/data/small.yaml": "# A group.\nsamples: 12\ngather: 2\nnum_workers: 1\n",
        },
        ("hydra",),
    ),
    SettingScript(
        "Hydra, arguments",
        "import hydra\n"
        + _HEAD
        + '@hydra.main(version_base=None, config_path="conf", config_name="config")\n'
        + "def main(config):\n    "
        + _FROM_OBJECT
        + "\nmain()\n",
        "",
        {"conf/config.yaml": _YAML.replace("12", "20").replace("s: 2", "s: 1").replace("rs: 1", "rs: 0")},
        ("hydra",),
        ("train.batch_size=12", "data.num_workers=1", "train.accumulation_steps=2"),
        written=False,
    ),
    SettingScript(
        "Lightning CLI",
        _LIGHTNING,
        "config.yaml",
        {"config.yaml": _LIGHTNING_YAML},
        ("lightning", "jsonargparse"),
        ("fit", "--config", "config.yaml"),
    ),
    SettingScript(
        "TrainingArguments, Python",
        _TRAINING_ARGUMENTS
        + "args = TrainingArguments(\n    output_dir=str(here / 'out'), per_device_train_batch_size=12,  # per device\n"
        + "    gradient_accumulation_steps=2, dataloader_num_workers=1, num_train_epochs=99, use_cpu=True,\n"
        + "    report_to=[],\n"
        + ")\n"
        + _TRAINER,
        needs=("transformers", "accelerate"),
    ),
    SettingScript(
        "TrainingArguments, YAML",
        _TRAINING_ARGUMENTS
        + '(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file(str(here / "args.yaml"))\n'
        + _TRAINER,
        "args.yaml",
        {
            "args.yaml": "output_dir: out\nper_device_train_batch_size: 12  # per device\n"
            "gradient_accumulation_steps: 2\ndataloader_num_workers: 1\nnum_train_epochs: 99\nuse_cpu: true\n"
            "report_to: []\n"
        },
        needs=("transformers", "accelerate"),
    ),
    SettingScript(
        "TrainingArguments, JSON",
        _TRAINING_ARGUMENTS
        + '(args,) = HfArgumentParser(TrainingArguments).parse_json_file(str(here / "args.json"))\n'
        + _TRAINER,
        "args.json",
        {
            "args.json": '{"output_dir": "out",\n"per_device_train_batch_size": 12, "gradient_accumulation_steps": 2,\n'
            ' "dataloader_num_workers": 1, "num_train_epochs": 99, "use_cpu": true, "report_to": []}\n'
        },
        needs=("transformers", "accelerate"),
    ),
    SettingScript("mp.spawn, two ranks", _HEAD + _SPAWN),
)
