"""node-fleet: a serverless autoscaler for K3s on AWS. This package is exactly what ships to Lambda."""

__version__ = "0.2.0"  # the only place that says it
