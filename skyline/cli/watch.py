"""``skyline watch``: a real training run, observed by rules while it trains."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyline.cli.command_line import parser, say_misplaced, split_at_script
from skyline.cli.numbers import seconds
from skyline.cli.streams import say
from skyline.errors import UsageError

if TYPE_CHECKING:
    from skyline.cli.watching import Watching
    from skyline.watch.diary import Diary
    from skyline.watch.live_runs import Claim
    from skyline.watch.rule import WatchRule
    from skyline.watch.run import WatchedProcess
    from skyline.watch.watcher import Watcher

_EXAMPLES = """\
  skyline watch train.py --epochs 90
  skyline watch torchrun --nproc-per-node 2 train.py
  skyline watch --set loader_stalls.share=0.5 --off dead_units train.py
  skyline watch --stop-on loss_not_finite --notify ./tell.sh train.py
  skyline watch --attach train.py --ask pause
  skyline watch --show .skyline/train-watch-20260102-030405.jsonl"""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def make_parser() -> argparse.ArgumentParser:
    return _made()[0]


def _made() -> tuple[argparse.ArgumentParser, list[argparse.Action]]:
    """The parser and its options."""
    command = parser(
        "watch",
        "[options] (SCRIPT | -m MODULE | COMMAND ...) [ARGS...]\n"
        "       skyline watch --attach [RUN] [--ask REQUEST]",
        "Run a training script to its end and report problems while it trains. The run is the\n"
        "real one: files are written, input and output are its own, the exit code is that of\n"
        "the script. It continues if Skyline is killed. Everything after SCRIPT is passed to the script.",
        _EXAMPLES,
    )
    return command, _add_options(command)


def run(arguments: Sequence[str]) -> int:
    """Run the command. The exit code is the script's."""
    command, own = _made()
    ours, rest = split_at_script(arguments, own)
    options = command.parse_args(ours)
    if options.show is not None:
        from skyline.cli.watch_history import show

        return show(Path(options.show))
    if options.attach is not None or options.ask:
        if rest:
            raise UsageError(
                "--attach runs no script",
                hint="Start one with skyline watch SCRIPT, and attach to it afterwards.",
            )
        from skyline.cli.watch_attach import attach

        return attach(options.attach or "", options.ask, options_of, quiet=options.quiet)
    if options.webhook and not options.webhook.startswith(("http://", "https://")):
        raise UsageError(
            f"--webhook {options.webhook} is not an address", hint="Example: http://localhost:8000/alerts"
        )
    if not rest:
        raise UsageError("There is no script to watch", hint="Name one: skyline watch train.py")
    _say_misplaced(command, rest, marked="--" in arguments[: len(arguments) - len(rest)], quiet=options.quiet)
    return _watched(rest, options, ours)


def options_of(words: Sequence[str]) -> argparse.Namespace:
    """The options of a run from the words of its command."""
    command = parser("watch", "[options]", "")
    _add_options(command)
    return command.parse_args(list(words))


def _add_options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    add = command.add_argument
    return [
        add("--set", metavar="RULE.THRESHOLD=VALUE", action="append", default=[], help="set a threshold of a rule"),
        add("--off", metavar="RULE", action="append", default=[], help="switch a rule off"),
        add("--stop-on", metavar="RULE", action="append", default=[],
            help="if this rule raises an alert, write a checkpoint and stop the run as Ctrl+C does"),
        add("--profile-on", metavar="RULE", action="append", default=[],
            help="if this rule raises an alert, keep a trace of three iterations"),
        add("--pause-on", metavar="RULE", action="append", default=[],
            help="if this rule raises an alert, pause the run until you continue it"),
        add("--allow", metavar="REQUEST", action="append", default=[], choices=("pause", "profile", "stop"),
            help="allow attached terminals to request this: pause, profile or stop"),
        add("--attach", metavar="RUN", nargs="?", const="",
            help="show an active run, by its name or script; without RUN, the only active one"),
        add("--ask", metavar="REQUEST", choices=("pause", "continue", "profile", "stop"),
            help="send this request to the run of --attach, and exit: pause, continue, profile or stop"),
        add("--notify", metavar="COMMAND", default="", help="run this command on each alert, with the alert "
            "as JSON on its stdin"),
        add("--webhook", metavar="URL", default="", help="send each alert to this address as JSON, by POST"),
        add("--overhead", metavar="SHARE", type=float,
            help="largest share of the run time that watching may use (default: 0.002)"),
        add("--every", metavar="S", type=seconds, default=0.5,
            help="seconds between two records of the run (default: 0.5)"),
        add("--history", metavar="FILE", help="write the history here (default: in .skyline next to the script)"),
        add("--no-history", action="store_true", help="write no history"),
        add("--show", metavar="FILE", help="print a history instead"),
        add("--interpreter", metavar="PYTHON", help="the Python that runs the script"),
        add("--quiet", "-q", action="store_true", help="print alerts only, without a status line"),
    ]  # fmt: skip


def _watched(words: Sequence[str], options: argparse.Namespace, ours: Sequence[str]) -> int:
    from skyline.cli.watching import Watching
    from skyline.watch.diary import usual_path
    from skyline.watch.run import WatchedProcess

    command, script = _command(words, options.interpreter)
    folder = Path.cwd() if script is None else script.absolute().parent
    rules, share = rules_in_force(folder, options)
    stem = (Path(words[0]).name.lstrip("-") if script is None else script.stem) or "run"
    history = Path(options.history) if options.history else usual_path(folder, stem)
    diary = _diary(None if options.no_history else history, command, asked=bool(options.history))
    beside = Path(os.path.abspath(history.with_suffix("")))
    try:
        process = WatchedProcess(command, share=share, every_s=options.every)
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror or error}") from error
    watching = Watching(process, rules, diary, options, beside, quiet=options.quiet)
    with process.forwarded_signals():
        claim = _announced(watching, process, diary, command, script, stem, folder, ours, beside)
        code = watching.to_the_end(process.process.wait)
    try:
        watching.watcher.end(code)
        if not options.quiet:
            say(_summary(watching.watcher, diary.path))
    except OSError:
        pass  # nobody reads it any more, or the disk is full: the exit code is that of the script
    finally:
        if claim is not None:
            claim.release(ended=True)
    return _exit_code(code or 0)


def _announced(
    watching: Watching,
    process: WatchedProcess,
    diary: Diary,
    command: Sequence[str],
    script: Path | None,
    stem: str,
    folder: Path,
    ours: Sequence[str],
    beside: Path,
) -> Claim | None:
    """Allow other terminals to attach to the run. If that fails, the run continues without it."""
    import psutil

    from skyline.watch.live_runs import Claim, LiveRun

    try:
        live = LiveRun(
            f"{stem}-{process.root()}",
            _without_secrets(command),
            "" if script is None else os.path.abspath(script),
            str(folder),
            datetime.now(timezone.utc).isoformat(timespec="seconds"),
            platform.node(),
            process.root(),
            psutil.Process(process.root()).create_time(),
            str(process.folder),
            os.getcwd(),
            tuple(ours),
            "" if diary.path is None else os.path.abspath(diary.path),
            str(beside),
        )
        watching.open_to_clients(live)
        return Claim.announce(live)
    except psutil.Error:
        return None  # it has ended already
    except OSError as error:
        say(f"skyline watch: no terminal can attach: {error}")
        return None


def _say_misplaced(
    command: argparse.ArgumentParser, words: Sequence[str], *, marked: bool, quiet: bool
) -> None:
    """Tell the user which of Skyline's options come after the script, which itself may follow a launcher."""
    if words[0] in {"-m", "--module"}:
        from skyline.capture.interpreter import module_file

        try:
            script = module_file(words[1], Path.cwd()) if len(words) > 1 else None
        except UsageError:
            script = None  # a module of the interpreter that runs it
        say_misplaced(command, script, words[2:], marked=marked, quiet=quiet)
        return
    index = next((index for index, word in enumerate(words) if _is_script(Path(word))), None)
    if index is not None:
        say_misplaced(command, Path(words[index]), words[index + 1 :], marked=marked, quiet=quiet)


def _is_script(path: Path) -> bool:
    return path.suffix == ".py" and path.is_file()


def _command(words: Sequence[str], interpreter: str | None) -> tuple[list[str], Path | None]:
    """The command to start, and the script if it is known."""
    from skyline.capture.interpreter import resolve_interpreter

    first = words[0]
    if first in {"-m", "--module"}:
        if len(words) < 2:
            raise UsageError("-m needs the name of a module", hint="Example: skyline watch -m package.train")
        return [resolve_interpreter(Path.cwd() / "script", interpreter), "-m", *words[1:]], None
    script = Path(first)
    if first.endswith(".ipynb"):
        raise UsageError(
            "A notebook cannot be watched", hint="Export it: jupyter nbconvert --to script NOTEBOOK."
        )
    if (script.is_file() and not os.access(script, os.X_OK)) or first.endswith(".py"):
        if not script.is_file():
            raise UsageError(f"There is no file {first}")
        return [resolve_interpreter(script, interpreter), *words], script
    # The program is a launcher. Its processes are watched like any others.
    named = next((Path(word) for word in words[1:] if _is_script(Path(word))), None)
    found = shutil.which(first)
    if found is None and os.sep not in first:
        beside = Path(resolve_interpreter(named or Path.cwd() / "script", interpreter)).parent / first
        found = str(beside) if os.access(beside, os.X_OK) else None
    if found is None:
        raise UsageError(f"There is no script and no program {first}")
    return [found, *words[1:]], named


def rules_in_force(folder: Path, options: argparse.Namespace) -> tuple[dict[str, WatchRule], float]:
    """The active rules, and the largest share of the run's time that watching may take."""
    from skyline.settings.pyproject import watch_settings_of
    from skyline.watch.registry import known_rules, made_rules, rule_class

    settings, thresholds, where = watch_settings_of(folder)
    for problem in known_rules().problems:
        say(f"skyline: {problem}", quiet=options.quiet)
    # Check the file on its own first, so that its mistakes are reported with their place in the file.
    made_rules(thresholds, where)
    for word in options.set:
        name, threshold, value = _set(word)
        thresholds.setdefault(name, {})[threshold] = value
    rules = made_rules(thresholds, "--set")
    for name in (*settings.off, *options.off, *options.stop_on, *options.profile_on, *options.pause_on):
        rule_class(name)
    share = settings.overhead if options.overhead is None else options.overhead
    if not 0 < share <= 0.1:
        raise UsageError(
            "--overhead must be a share above 0 and at most 0.1", hint="Example: --overhead 0.002"
        )
    off = {*settings.off, *options.off}
    return {name: rule for name, rule in rules.items() if name not in off}, share


def _set(word: str) -> tuple[str, str, Any]:
    name, dot, rest = word.partition(".")
    threshold, equals, text = rest.partition("=")
    if not (dot and equals):
        raise UsageError(f"--set {word} names no threshold", hint="Example: --set loader_stalls.share=0.5")
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"--set {word}: {text!r} is not a number") from None
    return name, threshold, int(value) if value.is_integer() else value


def _diary(path: Path | None, command: list[str], *, asked: bool) -> Diary:
    """The history. If the user did not ask for a file, the run starts even if the folder cannot be written to."""
    from skyline.watch.diary import Diary

    try:
        return Diary(path, list(_without_secrets(command)))
    except UsageError as error:
        if asked:
            raise
        say(f"skyline watch: no history: {error.message}")
        return Diary(None, command)


def _without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    from skyline.capture.redactor import Redactor

    return tuple(Redactor.of(os.environ, list(command)).scrub_arguments(tuple(command)))


def _summary(watcher: Watcher, history: Path | None) -> str:
    if not any(course.start for course in watcher.courses.values()):
        return (
            "skyline watch: no training iteration was seen. An iteration is a step of a torch.optim optimizer, "
            "or a backward pass."
        )
    kept = "" if history is None else f"; history: {history}"
    return f"skyline watch: alerts: {watcher.alerts}{kept}"


def _exit_code(code: int) -> int:
    """The exit code as a shell shows it. If a signal ended the run, it also ends this process, as shells expect."""
    if code >= 0:
        return code
    if -code in _ENDING:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return 128 - code
