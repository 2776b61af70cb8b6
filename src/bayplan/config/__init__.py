"""KubeSchedulerConfiguration v1 and the old Policy file: types, defaults, validation, loading."""
