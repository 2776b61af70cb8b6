"""Cache, snapshot, queue, scheduling cycle, preemption: events in, decisions out."""
