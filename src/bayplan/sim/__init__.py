"""Virtual time, scenarios, simulated kubelets, workloads."""
