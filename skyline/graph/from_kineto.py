"""Conversion of a PyTorch profiler trace to a graph of dependent tasks."""

from __future__ import annotations

from skyline.graph.assembly import KinetoGraph, assembled
from skyline.graph.graph import Graph
from skyline.graph.rules.calls import gpu_work, launching
from skyline.graph.rules.constants import constants_of
from skyline.graph.rules.event_wait import event_waits
from skyline.graph.rules.hand_off import bursts_of, hand_offs, independent
from skyline.graph.rules.launch import backlog, gaps_of, launch_queue, launches, occupied, with_unrecorded
from skyline.graph.rules.marks import marked, steps_of
from skyline.graph.rules.names import names_of
from skyline.graph.rules.pieces import Pieces, cpu_order
from skyline.graph.rules.recorded_tasks import recorded_tasks
from skyline.graph.rules.synchronisation import blocked, blocking_copies, synchronisations
from skyline.graph.rules.threads import host_threads
from skyline.trace.kineto.profiler_trace import ProfilerTrace


def graph_of(trace: ProfilerTrace) -> Graph:
    """The graph of the whole trace; see ``built``."""
    return built(trace).graph


def built(trace: ProfilerTrace) -> KinetoGraph:
    """The graph, with its relation to the trace.

    Durations and gaps of CPU work are the measured ones, as are durations of GPU work. The start of GPU work is
    derived instead: from its dependencies and from one launch latency and one turnaround time for the whole trace.
    Waiting time is subtracted from every call that waits; the simulation adds it again.
    """
    names = names_of(trace)
    hosts = host_threads(trace, names)
    work = gpu_work(trace)
    constants = constants_of(trace, work)
    waits = event_waits(trace, names, work, constants)
    work, unrecorded = with_unrecorded(trace, work, constants, waits.waiting)
    waits = event_waits(trace, names, work, constants)
    crowded = occupied(trace, work, constants, waits.waiting)
    calls = launching(trace, work)
    ordered = [cpu_order(trace, names, thread, calls) for thread in hosts.taking_part]
    pieces = Pieces.joined([one for one, _ in ordered])
    steps = steps_of(trace, names, hosts.main)
    bursts = bursts_of(pieces, hosts.main, hosts.autograd)
    copies = blocking_copies(trace, names, work)
    pieces, marks = marked(trace, pieces, hosts.main, steps, bursts, copies, work)
    recorded = recorded_tasks(trace, names, pieces, work)
    handed = hand_offs(pieces, bursts, marks.given, marks.waited)
    syncs = synchronisations(recorded)
    queue = launch_queue(recorded)
    first = recorded.first_work
    dependencies = handed.dependencies.joined(
        independent(pieces, hosts.taking_part, handed.begun, marks.origin),
        launches(recorded, constants.launch_latency_us),
        backlog(recorded, marks.origin, constants),
        blocked(copies, first, marks.copied),
        syncs.dependencies,
        queue.dependencies,
        waits.dependencies(first),
        crowded.dependencies(first),
    )
    return assembled(
        recorded,
        hosts,
        steps,
        bursts,
        marks,
        gaps_of(pieces, handed.idle_after),
        copies.own_us,
        (syncs, queue),
        handed.begun,
        dependencies,
        constants,
        {
            "events clipped to the one they begin in": sum(clipped for _, clipped in ordered),
            "threads that only watch the GPU": hosts.watching,
            "hand-offs between the script's thread and autograd's": len(bursts),
            "work launched before the recording": int((recorded.launch < 0).sum()),
            "copies that block their caller": len(copies.work),
            "waits of the CPU for the GPU": len(syncs.dependencies),
            "waits for room in a launch queue": int((queue.until_us > pieces.start_us[queue.piece]).sum()),
            "waits of a stream for another": len(waits),
            "waits for room on a GPU full of another stream's kernel": len(crowded),
            "pauses of CUDA graphs taken for unrecorded work": unrecorded,
        },
    )
