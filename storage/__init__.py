"""What is kept: the log, snapshots and artifacts. Knows the protocol, never an actor."""
