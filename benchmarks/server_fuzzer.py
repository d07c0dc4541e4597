"""Sends random, reordered, repeated and malformed messages to the language server, and checks its behaviour.

Starts the real server again and again, talks to it over pipes, and after every few hundred messages compares the
version and text of each document with the sent ones. Every request must be answered once, with a well-formed message
and without an internal error. Every position in an answer must be inside the text of the question. Resident memory is
checked throughout. Otherwise the exit status is 1, and the seed is printed.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from fuzz_client import Broken
from fuzz_session import Session
from machine import Machine
from result_file import RESULTS, table, write

from skyline.source.text import SourceText
from skyline.trace import store

RECORDED = Path(__file__).resolve().parent.parent / "tests" / "data" / "linear.profile.json.gz"
BATCH = 250
SHOWN = ("textDocument/codeLens", "textDocument/inlayHint", "textDocument/hover", "textDocument/codeAction")
MOST_GROWTH_BYTES = 30_000_000
"""Growth of resident memory after the first fifth of a long session that counts as a leak: 300 bytes per message."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One session without an error."""

    seed: int
    encoding: str
    messages: int
    seconds: float
    sent: dict[str, int]
    answers: dict[str, int]
    resident_bytes: list[int] = field(default_factory=list)

    @property
    def growth_bytes(self) -> int:
        """Median of the last tenth of the session minus the median of the tenth after the first fifth."""
        part = max(1, len(self.resident_bytes) // 10)
        early = self.resident_bytes[2 * part : 3 * part] or self.resident_bytes[:1]
        return round(statistics.median(self.resident_bytes[-part:]) - statistics.median(early))


def fuzz(seed: int, messages: int, folder: Path) -> Outcome:
    """A session of ``messages`` messages. Raises Broken with the error of the server."""
    root = folder.resolve() / f"seed{seed}"
    root.mkdir()
    uris = list(documents(root))
    stray = [f"file:///nowhere/{number}.py" for number in range(20)]
    stray += [
        "file:///dev/zero",
        "file:///dev",
        "untitled:Untitled-1",
        "file://[",
        "file:///a%00b.py",
        "x",
        "",
    ]
    began = time.monotonic()
    session = Session(root, seed, uris, stray, folder / f"seed{seed}.log")
    resident: list[int] = []
    try:
        while session.sent.total() < messages:
            for _ in range(BATCH):
                session.step()
                session.pump()
            state = session.settle(collect=len(resident) % 10 == 0)
            resident.append(state["resident_bytes"])
            for _ in range(50):
                # Requests of the server to the client, sent during a notification, may still be on their way.
                if not state["asked"]:
                    break
                time.sleep(0.1)
                state = session.settle()
            else:
                raise Broken(f"the server keeps finished work: {state}")
        if session.client.stop() != 0:
            raise Broken("the server did not end correctly")
    except Broken:
        # The stacks of the server's threads in its log help as much as the seed.
        session.client.tell_where()
        print("last written:", *session.client.latest, sep="\n", file=sys.stderr)
        print(f"seed {seed} after {session.sent.total()} messages: {session.sent}", file=sys.stderr)
        raise
    finally:
        session.client.kill()
    seconds = time.monotonic() - began
    return Outcome(
        seed,
        session.held.encoding,
        session.sent.total(),
        seconds,
        dict(session.sent),
        dict(session.answers),
        resident,
    )


def documents(root: Path) -> Iterator[str]:
    """Files with and without a profile, a file under two names, and a missing file."""
    (root / "helper.py").write_text("import torch\nnet = torch.nn.Linear(9, 9)\n")
    (source,) = store.load(RECORDED).sources
    for name, text in (("train.py", source.text), ("crlf.py", source.text.replace("\n", "\r\n"))):
        (root / name).write_bytes(text.encode())
        profiled(root / name)
    (root / "link.py").symlink_to(root / "train.py")
    for name in ("train.py", "crlf.py", "link.py", "helper.py", "missing.py"):
        yield (root / name).as_uri()


def profiled(script: Path) -> None:
    """Save the recorded profile as a profile of this script, which has the same lines."""
    recorded = gzip.decompress(RECORDED.read_bytes()).decode()
    path = store.load(RECORDED).script
    with tempfile.TemporaryDirectory() as folder:
        moved = Path(folder) / RECORDED.name
        moved.write_bytes(gzip.compress(recorded.replace(path, str(script)).encode()))
        profile = store.load(moved)
    source = replace(profile.sources[0], text=SourceText.read(script).text)
    store.save(replace(profile, interpreter="/nowhere/python", sources=(source,)))


def page(outcomes: list[Outcome]) -> str:
    head = [
        "seed",
        "positions in",
        "messages",
        "seconds",
        "answered",
        "refused",
        "memory at the end, MB",
        "growth, MB",
    ]
    rows = [
        [
            str(one.seed),
            one.encoding,
            str(one.messages),
            f"{one.seconds:.0f}",
            str(one.answers["answered"]),
            str(one.answers["refused"]),
            f"{one.resident_bytes[-1] / 1e6:.0f}",
            f"{one.growth_bytes / 1e6:+.1f}",
        ]
        for one in outcomes
    ]
    total = sum((Counter(one.sent) for one in outcomes), Counter[str]())
    kinds = ", ".join(f"{count} {name}" for name, count in total.most_common(20))
    shown = sum((Counter(one.answers) for one in outcomes), Counter[str]())
    with_content = ", ".join(f"{shown[name]} {name}" for name in SHOWN)
    return (
        f"{table(head, rows)}\n\n{total.total()} messages to {len(outcomes)} servers, compared after every "
        f"{BATCH}. No document differed. Every request got exactly one answer. No answer was an internal "
        "error.\n"
        "Growth is from the third tenth of a session to its last.\n\nThe most frequent messages: "
        + kinds
        + ".\n\n"
        f"Answers with content: {with_content}."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="in all sessions together")
    parser.add_argument("--sessions", type=int, default=4, help="servers, one after the other")
    parser.add_argument("--seed", type=int, default=0, help="of the first session")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.sessions):
            try:
                outcome = fuzz(seed, -(-options.messages // options.sessions), Path(folder))
            except Broken as error:
                print(f"seed {seed}: {error}", file=sys.stderr)
                log = (Path(folder) / f"seed{seed}.log").read_text(errors="replace")
                print("\n".join(log.splitlines()[-40:]), file=sys.stderr)
                return 1
            print(f"seed {seed}: {outcome.messages} messages in {outcome.seconds:.0f} s", file=sys.stderr)
            outcomes.append(outcome)
    figures = [asdict(one) | {"growth_bytes": one.growth_bytes} for one in outcomes]
    title = "The language server under random and malformed messages"
    print(write("server_fuzzer", title, machine, page(outcomes), figures, results=options.results))
    leaking = [one.seed for one in outcomes if one.growth_bytes > MOST_GROWTH_BYTES]
    if leaking:
        print(f"memory grew with seeds {leaking}", file=sys.stderr)
    return 1 if leaking else 0


if __name__ == "__main__":
    sys.exit(main())
