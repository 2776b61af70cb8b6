"""Small built-in controllers, and the simulated kubelet, each switchable by name."""
