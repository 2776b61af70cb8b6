"""Many runs: plans of sweeps, where they run, what they came to, and the search for the best."""
