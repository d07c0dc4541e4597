"""Messages for a script that ended before it could be measured: at its normal end, or with a known error."""

from __future__ import annotations

import re
from pathlib import Path

from skyline.capture.events import Ended
from skyline.errors import CaptureImpossible

LEAST_ITERATIONS = 4


def too_few(ended: Ended, *, least: int = LEAST_ITERATIONS, of: str = "training") -> CaptureImpossible:
    """The error for a script that ended without a profile, with the things that Skyline looked for and saw.

    ``of`` names the work of an iteration.
    """
    count = ended.boundaries
    if count:
        return CaptureImpossible(
            f"The script ran to its end with only {count} {of} iteration{'s' if count > 1 else ''}; "
            f"at least {least} are needed",
            hint="Give it more iterations or more data for the profiling run.",
        )
    if ended.processes and not ended.optimizers:
        return CaptureImpossible(
            "The script ran to its end without a training step; it started other programs, and the training "
            "seems to happen there",
            hint=f"Profile the program that trains. It started: {'; '.join(ended.processes[:3])}",
        )
    if of == "inference":
        return CaptureImpossible(
            "The script ran to its end without calling a model",
            hint="Skyline looked for calls of a torch.nn.Module with parameters. Check that the arguments "
            "of the script make it call its model.",
        )
    made, passes, fetches = ended.optimizers, ended.backward_calls, ended.fetches
    seen = (
        f"{made} optimizer{'' if made == 1 else 's'} made, none stepped, "
        f"{passes} backward pass{'' if passes == 1 else 'es'}, {fetches} batches from data loaders"
    )
    return CaptureImpossible(
        "The script ran to its end without a training step",
        hint="Skyline looked for step() of a torch optimizer, or backward() without an optimizer. It saw: "
        f"{seen}. Check that this is the script that trains, and that its arguments start the training.",
    )


_MOST_LINES = 20
_BEGINNING = re.compile(r"^\W*usage\s*:", re.IGNORECASE)
_COMPLAINT = re.compile(r"(?:^|\s)error:\s*(?P<words>\S.*)$", re.IGNORECASE)
_BOX_TITLE = re.compile(r"^\W*error\W*$", re.IGNORECASE)
"""The upper edge of the box that typer draws around an error."""
_BOX_EDGES = " │|╭╰─-+"


def usage_text(output: str) -> str:
    """The output from the last line that begins with "usage:" on, stripped of blank lines; empty if there is none."""
    lines = output.splitlines()
    begins = [index for index, line in enumerate(lines) if _BEGINNING.match(line)]
    if not begins:
        return ""
    return "\n".join(lines[begins[-1] :][:_MOST_LINES]).strip()


def complaint(text: str) -> str:
    """The error in the arguments, in the script's words; empty if no line names it."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        found = _COMPLAINT.search(line)
        if found is not None:
            return found["words"].strip()
        if _BOX_TITLE.match(line) and index + 1 < len(lines):
            return lines[index + 1].strip(_BOX_EDGES)
    return ""


_MORE_ROOM = (
    "Files of a profiled script go to the folder for temporary files: set TMPDIR to a folder with "
    "more free space."
)
_NO_MODULE = (
    "{interpreter} has no module {name}. Install it there, or name another interpreter: --interpreter PYTHON."
)
_OWN_MODULE = (
    "{name} is a part of this project, but its folder {folder} is not on Python's path. Start the script from that "
    "folder as a module: skyline profile -m {module}. In an editor, set PYTHONPATH in skyline.profile.env."
)
_MOST_ANCESTORS = 4
_TORCHVISION = (
    "torchvision does not fit this PyTorch: install the torch and torchvision of one release, from one index. "
    "The script fails in the same way without Skyline."
)
_NO_GPU = "PyTorch finds no GPU here. Predict for one without running it: skyline profile --gpu h100 SCRIPT."
_NO_SERVER = (
    "The script fetches data or a model, and the server could not be reached. Place the files where the script "
    "looks for them, or run it with access to the network."
)
_NO_LAUNCHER = (
    "A launcher starts this script. Write it before the script: skyline profile torchrun --nproc-per-node 2 SCRIPT. "
    "In an editor, set skyline.profile.launcher."
)
_NO_INPUT = "A profiled script cannot read keyboard input: let it take this answer from an argument."
_NEXT_STEPS = {
    r"No space left on device": _MORE_ROOM,
    r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'": _NO_MODULE,
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available"
    r"|No supported gpu backend found|on a CUDA device but torch\.cuda\.is_available\(\) is False": _NO_GPU,
    # Refused connections and unknown hosts in general do not match: they also occur if a rank does not find rank 0.
    # The message of a connection that Skyline refused already contains the next step.
    r"urlopen error(?!.*Skyline)|NameResolutionError(?!.*Skyline)|couldn't connect to 'https?://"
    r"|LocalEntryNotFoundError|Couldn't reach .+ on the Hub": _NO_SERVER,
    r"EOFError: EOF when reading a line": _NO_INPUT,
    r"operator torchvision::\w+ does not exist": _TORCHVISION,
    r"environment variable (RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected|KeyError: '(LOCAL_)?(RANK|WORLD_SIZE)'": (
        _NO_LAUNCHER
    ),
}


def next_step(message: str, interpreter: str = "The script's interpreter", *, traceback: str = "") -> str:
    """The advice for an error of the script; empty if the cause is not known.

    ``interpreter`` is the path of the Python that ran the script. The ``traceback`` includes the errors that caused
    this one: libraries with lazy imports raise an error of their own from the one that shows the cause.
    """
    errors = "\n".join(line for line in traceback.splitlines() if not line.startswith((" ", "Traceback")))
    for text in (message, errors):
        for pattern, advice in _NEXT_STEPS.items():
            found = re.search(pattern, text)
            if found is None:
                continue
            if advice is _NO_MODULE and (own := _of_project(found["name"], traceback)):
                return own
            return advice.format(interpreter=interpreter, **found.groupdict())
    return ""


def _of_project(name: str, traceback: str) -> str:
    """The advice for a module that lies in a folder above that of the script; empty if none does.

    The outermost frame of the traceback is that of the script.
    """
    script = re.search(r'^  File "(/[^"]+)"', traceback, re.MULTILINE)
    path, top = Path(script[1] if script else ""), name.partition(".")[0]
    for folder in list(path.parents)[1:_MOST_ANCESTORS]:
        if (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file():
            module = ".".join(path.relative_to(folder).with_suffix("").parts)
            return _OWN_MODULE.format(name=name, folder=folder, module=module)
    return ""
