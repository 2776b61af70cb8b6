"""What plugin authors import: points, statuses, verdicts, events, the handle."""
