"""The bayplan command, one module a sub-command."""
