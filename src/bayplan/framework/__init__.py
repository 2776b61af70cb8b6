"""The contract that plugin authors import: extension points, statuses, verdicts, tables, registry."""
