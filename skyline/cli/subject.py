"""The subject of a command: a saved profile, or a script with its latest profile."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import check_script, run_capture, save
from skyline.cli.command_line import SCRIPT_SUFFIXES
from skyline.cli.project import fill_in
from skyline.cli.streams import say
from skyline.errors import SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.container import head_of, is_trace

if TYPE_CHECKING:
    from skyline.predict.gpu_spec import GpuSpec
    from skyline.trace.profile import Profile


_MOST_LOOKED_AT = 8
"""Number of saved profiles to search for one of the requested kind: measured, or predicted for a GPU."""


@dataclass(frozen=True, slots=True)
class LoadedProfile:
    """A profile and the file it came from, if it was saved."""

    profile: Profile
    path: Path | None
    measured_now: bool = False


def saved_profile(name: str | None) -> LoadedProfile:
    """The profile in a file or the latest of a script. Without a name, the latest profile of this folder."""
    from skyline.trace import store

    path = saved_path(name)
    script = None if name is None or path == Path(name) else Path(name)
    return LoadedProfile(store.load(path, script), path)


def saved_path(name: str | None) -> Path:
    """The file of ``saved_profile``. Raises UsageError if there is none."""
    path = Path(name) if name is not None else None
    if path is not None and not is_script(path):
        return path
    from skyline.trace import store

    if path is None:
        return _latest_here()
    found = store.latest(path)
    if found is None:
        raise UsageError(
            f"There is no saved profile of {name}", hint=f"Make one with: skyline profile {name}"
        )
    return found


def subject_of(source: str, arguments: tuple[str, ...] | None, options: argparse.Namespace) -> LoadedProfile:
    """The profile to answer from: a saved file, the script's latest profile if it is still valid, or a new one.

    ``arguments`` None: the arguments that the script was last profiled with.
    """
    path = Path(source)
    if not is_script(path):
        if arguments is not None:
            raise UsageError(
                f"{source} is a saved profile: it takes no arguments ({' '.join(arguments)})",
                hint="Name the script to run it again.",
            )
        return saved_profile(source)
    module = ""
    fill_in(options, path, gpu=True)
    if not options.fresh:
        from skyline.trace import store

        found = _latest_of_kind(path, options.gpu, options.memory, quiet=options.quiet)
        wanted = options.launch.ranks if options.launch is not None else None
        if wanted is None and options.ranks > 1:
            wanted = options.ranks
        known = _reusable(found, path, arguments, wanted, quiet=options.quiet) if found is not None else None
        if known is not None:
            return known
        found = store.latest(path)
        if found is not None:
            module = _module_of(found, path)
            if arguments is None:
                arguments = _arguments_of(found, path)
    profile = run_capture(path, arguments or (), options, module=module)
    try:
        saved = save(profile, options)
    except UsageError as error:
        # Answer the question although the profile is not saved. The next question will run the script again.
        say(f"skyline: {error.message}")
        saved = None
    return LoadedProfile(profile, saved.profile if saved else None, measured_now=True)


def refuse_trace(source: str) -> UsageError:
    """The error for a trace in a command that needs a profile."""
    return UsageError(
        f"{source} is a PyTorch profiler trace: it names no script and has no sources",
        hint=f"For a trace: skyline whatif {source}. For everything else: skyline profile SCRIPT",
    )


def require_script(path: Path) -> None:
    """Raise UsageError if the path is a saved profile, in a command that needs a script."""
    if not is_script(path):
        raise UsageError(f"{path} is a saved profile", hint="Name the script itself.")


def is_script(path: Path) -> bool:
    """True if a path names Python source or a notebook. Raises UsageError for an unreadable path."""
    if path.suffix in SCRIPT_SUFFIXES or not path.exists() or path.is_dir():
        check_script(path)
        return True
    head = head_of(path)
    if head.lstrip()[:1] not in {b"{", b"["}:
        if path.name.endswith((".json", ".gz")):
            raise UsageError(f"{path} is damaged or not a Skyline profile", hint="Profile the script again.")
        return True
    if is_trace(path):
        raise refuse_trace(str(path))
    return False


def changed_sources(profile: Profile) -> tuple[str, ...]:
    """The files of a profile that changed since it was made.

    In a settings file only the values of known settings are compared, because the rest was not recorded.
    """
    from skyline.source.settings_file import still_holds
    from skyline.source.text import SourceText
    from skyline.trace.batch_place import held_settings

    changed: list[str] = []
    for source in profile.sources:
        try:
            same = SourceText.read(source.path).text == source.text
        except SkylineError:
            same = False
        if not same:
            changed.append(source.path)
    changed += [place.file for place in held_settings(profile) if not still_holds(place)]
    return tuple(dict.fromkeys(changed))


def _latest_of_kind(
    script: Path, gpu: str | None, memory: int | None, *, quiet: bool
) -> LoadedProfile | None:
    """The newest saved profile for this GPU and memory. Without a GPU, the newest measured one."""
    from skyline.predict.gpus import gpu_named
    from skyline.trace import store

    spec = gpu_named(gpu).limited(memory) if gpu is not None else None
    for path in store.shown_first(script)[:_MOST_LOOKED_AT]:
        try:
            profile = store.load(path, script)
        except SkylineError as error:
            say(f"skyline: {error.message}; profiling again", quiet=quiet)
            return None
        of = profile.prediction.gpu if profile.prediction is not None else None
        if of != (spec.name if spec is not None else None):
            continue
        if spec is None or spec.memory_bytes == profile.environment.memory_capacity_bytes:
            return LoadedProfile(profile, path)
    return None


def _reusable(
    found: LoadedProfile,
    script: Path,
    arguments: tuple[str, ...] | None,
    ranks: int | None,
    *,
    quiet: bool,
) -> LoadedProfile | None:
    """The profile if it is valid for the current script, these arguments and this number of ranks (None: any)."""
    from skyline.report.basis import when

    profile = found.profile
    changed = changed_sources(profile)
    host = profile.environment.device.host
    if changed and host:
        raise UsageError(
            f"{Path(changed[0]).name} changed since it was profiled on {host}",
            hint=f"Profile it there again: skyline profile --host {host} {script}; or here: --fresh",
        )
    if changed:
        say(f"skyline: {Path(changed[0]).name} changed since it was profiled; profiling again", quiet=quiet)
        return None
    if arguments is not None and _as_kept(arguments) != profile.arguments:
        return None
    if ranks is not None and profile.iteration is not None and profile.iteration.world_size != ranks:
        return None
    words = " ".join((Path(profile.script).name, *profile.arguments))
    say(
        f"skyline: from the profile of {when(profile.created)} ({words}); --fresh profiles again", quiet=quiet
    )
    return found


def measured_here(script: Path, arguments: tuple[str, ...], processor: GpuSpec) -> Profile | None:
    """The newest measured profile, if it is of the current script with these arguments, in one process on this CPU."""
    found = _latest_of_kind(script, None, None, quiet=True)
    profile = found.profile if found is not None else None
    if profile is None or profile.arguments != _as_kept(arguments) or changed_sources(profile):
        return None
    of = profile.environment
    alone = profile.iteration is None or profile.iteration.world_size == 1
    # The number of threads is not compared: the script sets it, as in runs on this machine.
    same = of.device.kind == "cpu" and not of.device.host and processor.full_name.startswith(of.device.name)
    return profile if alone and same and profile.times.steps_ms else None


def check_runnable(profile: Profile) -> None:
    """Raise UsageError if the script had a secret among its arguments, which is not stored, so it cannot run again."""
    from skyline.capture.redactor import hides_something

    if hides_something(profile.arguments):
        raise UsageError(
            f"{Path(profile.script).name} was profiled with a secret in its arguments, and secrets are not stored",
            hint="Give the arguments again, at the end of the command.",
        )


def _as_kept(arguments: tuple[str, ...]) -> tuple[str, ...]:
    from skyline.capture.redactor import Redactor

    return Redactor.of(arguments=arguments).scrub_arguments(arguments)


def _arguments_of(path: Path, script: Path) -> tuple[str, ...]:
    from skyline.trace import store

    try:
        profile = store.load(path, script)
    except SkylineError:
        return ()
    check_runnable(profile)
    return profile.arguments


def _module_of(path: Path, script: Path) -> str:
    """The module name under which a script last ran, if it still has that name in this folder. Otherwise empty."""
    from skyline.capture.interpreter import module_file
    from skyline.trace import store

    try:
        profile = store.load(path, script)
        same = module_file(profile.module, Path.cwd()).samefile(profile.script) if profile.module else False
    except (SkylineError, OSError):
        return ""
    return profile.module if same else ""


def _latest_here() -> Path:
    from skyline.trace import store

    found = store.profiles_in(Path.cwd() / store.FOLDER)
    if not found:
        raise UsageError(
            "There is no saved profile in this folder", hint="Make one with: skyline profile SCRIPT"
        )
    return max(found, key=lambda path: path.stat().st_mtime)
