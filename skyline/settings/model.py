"""The settings: names, types, limits, defaults and descriptions.

This is their only definition. Editors write the keys in camelCase (``profile.onSave``), ``[tool.skyline]`` of a
``pyproject.toml`` in snake_case (``profile.on_save``). ``extra`` is for editors: whether a value may differ between
folders (``scope``), and whether it is ignored in an untrusted workspace (``restricted``).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from msgspec import Meta

from skyline.lazy_dataclass import dataclass

SECTION = "skyline"

OnSave = Literal["afterFirst", "always", "everySave", "never"]
Device = Literal["auto", "cpu", "cuda"]
Network = Literal["loopback", "open"]

_BY_FOLDER: dict[str, Any] = {"scope": "resource"}
_TRUSTED: dict[str, Any] = {"scope": "resource", "restricted": True}
_INTERPRETER: dict[str, Any] = {"scope": "machine-overridable", "restricted": True}


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """The run of a script."""

    entry_point: Annotated[
        str | None,
        Meta(
            description="The script to run if the profiled file has no training loop, such as `train.py` for "
            "`model.py`; relative to the workspace folder.",
            extra=_TRUSTED,
        ),
    ] = None
    args: Annotated[
        tuple[str, ...], Meta(description="Arguments of the script, one per item.", extra=_TRUSTED)
    ] = ()
    env: Annotated[
        dict[str, str],
        Meta(description="Environment variables to add for the script.", extra=_TRUSTED),
    ] = field(default_factory=dict[str, str])
    launcher: Annotated[
        tuple[str, ...],
        Meta(
            description="The command that starts the script, one word per item, such as `torchrun` and "
            "`--nproc-per-node=2`; the script and its arguments follow it. Notebooks are run without it.",
            extra=_TRUSTED,
        ),
    ] = ()
    host: Annotated[
        str | None,
        Meta(
            description="The machine that runs the script, named as for ssh; it gets a copy of the project. Without "
            "it: this machine. A save runs the script there only if `network` is `open`.",
            extra=_TRUSTED,
        ),
    ] = None
    device: Annotated[
        Device,
        Meta(
            description="The device that the script may use: `cpu` hides the GPUs from it.",
            extra=_BY_FOLDER,
            extra_json_schema={
                "enumDescriptions": [
                    "The script's own choice.",
                    "GPUs are hidden from the script.",
                    "A GPU is required.",
                ]
            },
        ),
    ] = "auto"
    steps: Annotated[
        int, Meta(ge=1, description="Smallest number of iterations to time.", extra=_BY_FOLDER)
    ] = 8
    timeout_s: Annotated[
        float,
        Meta(gt=0, description="Longest wait for the script's next iteration, in seconds.", extra=_BY_FOLDER),
    ] = 180.0
    budget_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Time for trials of other batch sizes, threads and number formats, from the first figures "
            "to the end, in seconds; 0: no trials.",
            extra=_BY_FOLDER,
        ),
    ] = 20.0
    on_save: Annotated[
        OnSave,
        Meta(
            description="Measure again when you save the script, or one of your modules that it imports, in the editor "
            "by hand. Changes on disk by git and other programs do not count.",
            extra=_BY_FOLDER,
            extra_json_schema={
                "enumDescriptions": [
                    (
                        "After you have profiled that script once. Skyline asks again on another git branch and "
                        "after 30 days."
                    ),
                    (
                        "Every training script, without asking, and on automatic saves too. In "
                        "`pyproject.toml` it means `afterFirst`."
                    ),
                    "As `afterFirst`, and on automatic saves too.",
                    "Only when you ask for it.",
                ]
            },
        ),
    ] = "afterFirst"


@dataclass(frozen=True, slots=True)
class CodeLensSettings:
    """Lenses above the training loop, and above the functions and classes that cost most."""

    enable: Annotated[
        bool, Meta(description="Show figures above the training loop and costly functions.", extra=_BY_FOLDER)
    ] = True
    min_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Smallest share of the iteration for which a function or class gets a lens.",
            extra=_BY_FOLDER,
        ),
    ] = 0.05


@dataclass(frozen=True, slots=True)
class InlayHintSettings:
    """Times at the ends of lines."""

    enable: Annotated[bool, Meta(description="Show times at the ends of lines.", extra=_BY_FOLDER)] = True
    min_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Smallest share of the iteration for which a line gets a hint.",
            extra=_BY_FOLDER,
        ),
    ] = 0.01


@dataclass(frozen=True, slots=True)
class DiagnosticSettings:
    """Findings, as problems of the editor."""

    select: Annotated[
        tuple[str, ...],
        Meta(
            description="Findings to show, by code or the beginning of one: `SKY1`, `SKY301`. An empty list: none.",
            extra=_BY_FOLDER,
        ),
    ] = ("SKY",)
    ignore: Annotated[
        tuple[str, ...],
        Meta(description="Findings to hide, by code or the beginning of one.", extra=_BY_FOLDER),
    ] = ()
    warn_at: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Smallest share of the iteration for which a finding that Skyline can fix is a warning; "
            "every other finding is information.",
            extra=_BY_FOLDER,
        ),
    ] = 0.2


@dataclass(frozen=True, slots=True)
class HoverSettings:
    """Details of a line."""

    enable: Annotated[
        bool, Meta(description="Show the details of a line under the pointer.", extra=_BY_FOLDER)
    ] = True


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings."""

    enable: Annotated[
        bool, Meta(description="Enable Skyline; otherwise nothing is shown.", extra=_BY_FOLDER)
    ] = True
    interpreter: Annotated[
        str | None,
        Meta(
            description="The Python that runs scripts; without it, the nearest one that has PyTorch.",
            extra=_INTERPRETER,
        ),
    ] = None
    gpu: Annotated[
        str | None,
        Meta(
            description="Predict for this GPU, which need not be here, instead of running the script.",
            extra=_BY_FOLDER,
        ),
    ] = None
    network: Annotated[
        Network,
        Meta(
            description="Network that a run started by a save may reach; a run that you start may reach everything.",
            extra=_TRUSTED,
            extra_json_schema={
                "enumDescriptions": [
                    "This machine only; other connections are refused and listed.",
                    "Everything.",
                ]
            },
        ),
    ] = "loopback"
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    code_lens: CodeLensSettings = field(default_factory=CodeLensSettings)
    inlay_hints: InlayHintSettings = field(default_factory=InlayHintSettings)
    diagnostics: DiagnosticSettings = field(default_factory=DiagnosticSettings)
    hover: HoverSettings = field(default_factory=HoverSettings)
