"""Small scripts on which the tests in this folder do the tasks that people have; each is written into a folder."""

from __future__ import annotations

import json
from pathlib import Path

LOOP = """\
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(1000):
        for x, y in DataLoader(data, batch_size=BATCH, shuffle=True):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
"""
HEAD = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n\n"
SLOW_DATA = """\
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(64), torch.randn(1)


"""


def plain(project: Path) -> Path:
    """A training of a perceptron."""
    return _script(project, f"{HEAD}\ndef main():\n{_body('32')}\n\nmain()\n")


def with_hydra(project: Path) -> Path:
    """Its batch size is in ``conf/config.yaml``. The path of that file."""
    config = project / "conf" / "config.yaml"
    config.parent.mkdir()
    config.write_text("# Settings.\ntrain:\n  batch_size: 32  # samples\nseed: 32\n")
    _script(
        project,
        f"import hydra\n{HEAD}\n"
        '@hydra.main(version_base=None, config_path="conf", config_name="config")\n'
        f"def main(config):\n{_body('config.train.batch_size')}\n\nmain()\n",
    )
    return config


def in_a_notebook(project: Path) -> Path:
    """Its batch size is in the second cell, its loop in the third."""
    cells = [HEAD, "batch_size = 32", "if True:\n" + _body("batch_size")]
    entries = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"cell{number}",
            "metadata": {},
            "outputs": [],
            "source": cell.splitlines(keepends=True),
        }
        for number, cell in enumerate(cells)
    ]
    notebook = project / "train.ipynb"
    notebook.write_text(
        json.dumps({"cells": entries, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    )
    return notebook


def under_torchrun(project: Path) -> Path:
    """It needs a launcher."""
    body = _body("32").replace(
        "    optimizer = ", "    net = nn.parallel.DistributedDataParallel(net)\n    optimizer = "
    )
    return _script(
        project,
        f"import torch.distributed as dist\n{HEAD}\n"
        f'def main():\n    dist.init_process_group("gloo")\n{body}\n\n'
        'if __name__ == "__main__":\n    main()\n',
    )


def on_gpu(project: Path) -> Path:
    """It trains on a GPU where there is one."""
    body = _body("32").replace(
        "    net = ", '    device = "cuda" if torch.cuda.is_available() else "cpu"\n    net = '
    )
    body = body.replace("Linear(256, 1))", "Linear(256, 1)).to(device)")
    body = body.replace("net(x), y", "net(x.to(device)), y.to(device)")
    return _script(project, f"{HEAD}\ndef main():\n{body}\n\nmain()\n")


def waits_for_data(project: Path) -> Path:
    """Reading a batch takes most of an iteration."""
    body = _body("32").replace("TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))", "Slow()")
    return _script(project, f"import time\n{HEAD}\n{SLOW_DATA}def main():\n{body}\n\nmain()\n")


def _body(batch: str) -> str:
    return LOOP.replace("BATCH", batch)


def _script(project: Path, text: str) -> Path:
    script = project / "train.py"
    script.write_text(text)
    return script
