"""Limits: every bound of the system, with its unit in the name and its reason beside it."""

ID_CHARS_MAX = 64
"""A subject holds up to six tokens of this size and stays below NATS' practical 256 characters."""

PAYLOAD_BYTES_MAX = 1024 * 1024
"""nats-server's default `max_payload`; a larger frame closes the connection for ever (nats-py)."""

HEADER_BYTES_RESERVED = 16 * 1024
"""Payload and headers count together against `max_payload`."""

ENVELOPE_BYTES_MAX = 256 * 1024
"""Above this an envelope is split, or its parts travel by claim check."""

CLAIM_BYTES_MIN = 64 * 1024
"""A text leaf at least this large travels by claim check: four fit into one envelope."""

INLINE_BYTES_MAX = PAYLOAD_BYTES_MAX - 96 * 1024
"""A message that goes into the log whole while the store for large parts is down; the rest is its frame's."""

MESSAGE_BYTES_MAX = 256 * 1024 * 1024
"""A message above this is refused at the client; nobody sends it to a model."""

MESSAGE_DEPTH_MAX = 100
"""Nesting of a message. A fixed bound: where Python's own stack ends differs from one worker to the next."""

REPLY_CHUNK_BYTES = 512 * 1024
"""A context that is larger than one frame is answered in pieces of this size."""

WHOLE_MAX = 2**63 - 1
"""Of a whole number in a question: what records have. In a log any of 64 bits is read as it always was."""

UPLOAD_BYTES_MAX = 2**48
"""Of an upload that a message claims: no store has one so large, and sums of these are no number of a record."""

SET_MAX = 2**40
"""Of tokens, bytes or seconds that a policy sets: sums of these stay below 64 bits."""

MODEL_CHARS_MAX = 300
"""Of a model's name that is looked up in a table."""

READ_BYTES_MAX = 64 * 1024
"""Of one answer of `read_artifact`: a tool's result of more bytes would be shortened again."""

WRITERS_REMEMBERED_MAX = 256
"""Writers of one conversation whose counters the fold keeps; the least recent is forgotten."""

COUNT_PIECE_CHARS = 100_000
"""tiktoken dies on a run of a million spaces; a piece also bounds one call to some 10 ms."""

APPEND_ATTEMPTS_MAX = 16
"""Conflicts in a row before a step gives up; 8 writers on one conversation needed 5 (measured)."""

UNSENT_MAX = 50
"""Views of one conversation that no model got, of which one call says so. Of more in a row the oldest are forgotten:
the log then goes on to say that they were served."""

SNAPSHOT_COMMITS = 64
"""Commits between two snapshots: for one at every step 163 MB instead of 1.1 were written, and with 50 snapshots were
0.57 of what was said and committed (measured)."""

SNAPSHOT_BYTES = 512 * 1024
"""Of commits between two snapshots at most, so that a cold start folds no more: a compaction of a wide window writes
230 KB, a snapshot of it as many."""

assert CLAIM_BYTES_MIN < ENVELOPE_BYTES_MAX < PAYLOAD_BYTES_MAX - HEADER_BYTES_RESERVED
