"""Objects of the machine at an address, as machine code sees them: one view for each kind (see ``object_layout``)."""

from __future__ import annotations

from .memory import record
from .object_layout import ADT, CLOSURE, FREE, PENDING, STORAGE

storage_at, adt_at, closure_at = record(STORAGE), record(ADT), record(CLOSURE)
pending_at, free_at = record(PENDING), record(FREE)
