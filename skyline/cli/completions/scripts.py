"""Scripts that complete the command ``skyline`` in bash, zsh and fish."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from skyline.cli.completions.words import CommandWords, OptionWords

_BASH = """\
# Completes skyline. Written by: skyline completion {shell}
_skyline() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="${{COMP_WORDS[1]}}" options="" valued="" names="" own="" index word subject=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {commands} -- "$cur"))
    return
  fi
  case "$command" in
{cases}
    *) return ;;
  esac
  for ((index = 2; index < COMP_CWORD; index++)); do
    word="${{COMP_WORDS[index]}}"
    case "$word" in
      -*) case " $valued " in *" $word "*) index=$((index + 1)) ;; esac ;;
      *) subject="$word" ;;
    esac
  done
  if [ -n "$subject" ] && [ -n "$own" ]; then
    COMPREPLY=($(compgen -f -- "$cur"))
    return
  fi
  case "$command $prev" in
{values}
  esac
  case " $valued " in *" $prev "*) COMPREPLY=($(compgen -f -- "$cur")); return ;; esac
  case "$cur" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -f -- "$cur"))
       if [ -n "$subject" ] && [ -n "$names" ]; then COMPREPLY=($(compgen -W "$names" -- "$cur")); fi ;;
  esac
}}
complete -F _skyline -o filenames skyline
"""
_ZSH = "autoload -Uz compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n"


def bash(commands: Sequence[CommandWords]) -> str:
    """The script for bash."""
    return _bash(commands, "bash")


def zsh(commands: Sequence[CommandWords]) -> str:
    """The script for zsh, which reads that of bash."""
    return _ZSH + _bash(commands, "zsh")


def fish(commands: Sequence[CommandWords]) -> str:
    """The script for fish."""
    return "\n".join(("# Completes skyline. Written by: skyline completion fish", *_fish(commands), ""))


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
"""The script of each shell."""


def _bash(commands: Sequence[CommandWords], shell: str) -> str:
    return _BASH.format(
        shell=shell,
        commands=quote(" ".join(one.name for one in commands)),
        cases="\n".join(_case(one) for one in commands),
        values="\n".join(_values(commands)),
    )


def _case(command: CommandWords) -> str:
    options = _joined(name for one in command.options for name in one.names)
    valued = _joined(name for one in command.options if one.takes_value for name in one.names)
    own = "yes" if command.own_arguments else ""
    return (
        f"    {command.name}) options={quote(options)}; valued={quote(valued)}; "
        f"names={quote(_joined(command.names))}; own={quote(own)} ;;"
    )


def _values(commands: Sequence[CommandWords]) -> Iterator[str]:
    for command in commands:
        for option in command.options:
            if option.choices:
                places = "|".join(f'"{command.name} {name}"' for name in option.names)
                words = quote(_joined(option.choices))
                yield f'    {places}) COMPREPLY=($(compgen -W {words} -- "$cur")); return ;;'


def _fish(commands: Sequence[CommandWords]) -> Iterator[str]:
    for command in commands:
        yield f"complete -c skyline -n __fish_use_subcommand -xa {command.name} -d {_quoted(command.summary)}"
    for command in commands:
        here = _quoted(f"__fish_seen_subcommand_from {command.name}")
        for option in command.options:
            yield f"complete -c skyline -n {here} {_fish_option(option)}"
        if command.names:
            yield f"complete -c skyline -n {here} -a {_quoted(_joined(command.names))}"


def _fish_option(option: OptionWords) -> str:
    words = [
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
        for name in option.names
        if re.fullmatch(r"--[\w-]+|-\w", name)
    ]
    if option.choices:
        words.append(f"-xa {_quoted(_joined(option.choices))}")
    elif option.takes_value:
        words.append("-r")
    return " ".join((*words, f"-d {_quoted(option.summary)}"))


def _quoted(text: str) -> str:
    """A word of fish in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _joined(words: Iterable[str]) -> str:
    return " ".join(words)
