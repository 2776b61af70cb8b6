"""HTTP extenders, both sides: wire format, the client that calls them, the kit to write one."""
