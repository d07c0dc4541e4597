"""``skyline ledger``: all predictions with their measurements so far, and how well they agreed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from skyline.cli.command_line import parser
from skyline.cli.streams import deliver, say, tell
from skyline.errors import ExitCode, UsageError

_EXAMPLES = """\
  skyline ledger                            every verification on this machine
  skyline ledger --script train.py          those of one script
  skyline ledger --whatif num_workers       those of one what-if
  skyline ledger --forget 3f2a90c1          remove one permanently"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "ledger",
        "[options]",
        "List what skyline verify predicted and measured, and how well each what-if has\n"
        "been predicted. The ledger is one file in your data directory; nothing leaves\n"
        "this machine.",
        _EXAMPLES,
    )
    command.add_argument("--script", metavar="SCRIPT", help="those of this script")
    command.add_argument("--whatif", metavar="NAME", help="those of this what-if, alone or with others")
    command.add_argument(
        "--json", metavar="FILE", help="write them as JSON ('-': to stdout, without other output)"
    )
    command.add_argument(
        "--forget", metavar="ID", nargs="+", help="remove these entries; 'all': every one shown"
    )
    command.add_argument("--path", action="store_true", help="print the path of the ledger only")
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(list(arguments))
    from skyline.ledger.ledger import Ledger
    from skyline.ledger.record import track_records
    from skyline.report.pages.verification import ledger_page

    ledger = Ledger()
    if options.path:
        tell(str(ledger.path))
        return int(ExitCode.OK)
    entries = ledger.entries(script=options.script, whatif=options.whatif)
    if options.forget:
        known = {entry.id for entry in entries}
        ids = tuple(sorted(known)) if options.forget == ["all"] else tuple(options.forget)
        unknown = [each for each in ids if each not in known]
        if unknown:
            raise UsageError(f"The ledger has no entry {', '.join(unknown)}", hint="The list: skyline ledger")
        count = ledger.forget(ids)
        say(f"skyline: forgot {count} {'entry' if count == 1 else 'entries'}")
        return int(ExitCode.OK)
    records = track_records(entries)
    report = {
        "schema": "skyline.ledger/1",
        "path": str(ledger.path),
        "entries": [asdict(entry) for entry in entries],
        "records": [{**asdict(record), "machine": asdict(machine)} for machine, record in records],
    }
    deliver(report, lambda: ledger_page(entries, [record for _, record in records]), options.json)
    return int(ExitCode.OK)
