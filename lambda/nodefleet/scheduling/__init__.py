"""Where a pod may run, worked out as the Kubernetes scheduler does. Pure."""
