"""Sites, stacks and allocations: the same framework with sites as targets."""
