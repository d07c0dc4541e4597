"""One event of the file: only the fields in use are decoded."""

from __future__ import annotations

from decimal import Decimal

import msgspec

NAN = float("nan")
NOTHING = msgspec.Raw(b"")


class Arguments(msgspec.Struct, gc=False, rename=None):
    """The fields of ``args`` that connect events to each other or describe their data."""

    correlation: int = 0
    external: int = msgspec.field(name="External id", default=0)
    external_2020: int = msgspec.field(name="external id", default=0)
    stream: int = -1
    device: int = -1
    sequence: int = msgspec.field(name="Sequence number", default=-1)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=0)
    size: int = msgspec.field(name="bytes", default=0)
    python_id: int = msgspec.field(name="Python id", default=0)
    python_module: int = msgspec.field(name="Python module id", default=-1)
    stack: str = msgspec.field(name="Call stack", default="")
    module_path: str = msgspec.field(name="Module Hierarchy", default="")
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    shapes_2020: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    wait_stream: int = msgspec.field(name="wait_on_stream", default=-1)
    wait_recorded_by: int = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=0)
    collective: str = msgspec.field(name="Collective name", default="")
    element_type: str = msgspec.field(name="dtype", default="")
    elements_in: int = msgspec.field(name="In msg nelems", default=0)
    group: str | int = msgspec.field(name="Process Group Name", default="")
    group_2023: str | int = msgspec.field(name="Process Group ID", default="")
    ranks: msgspec.Raw = msgspec.field(name="Process Group Ranks", default=NOTHING)
    memory_device: int = msgspec.field(name="Device Id", default=-1)
    memory_device_type: int = msgspec.field(name="Device Type", default=0)
    memory_allocated: int = msgspec.field(name="Total Allocated", default=-1)
    thread_name: str | int = msgspec.field(name="name", default="")


class Event(msgspec.Struct, gc=False):
    """An event. Times are in µs; ``ts`` is NaN if missing."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = NAN
    dur: float = NAN
    args: Arguments | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """An event with its time as a decimal: µs since 1970 with three decimals exceed the precision of a float."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: Decimal = Decimal("NaN")
    dur: float = NAN
    args: Arguments | None = None
