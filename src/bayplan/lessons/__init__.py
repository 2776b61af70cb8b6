"""The seven steps, each a small readable scheduler and a scenario."""
