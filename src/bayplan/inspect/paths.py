"""Where the questions are served, for servers that load the answers only when somebody asks."""

PREFIX = "/inspect/v1/"
MAX_BODY = 1 << 20
