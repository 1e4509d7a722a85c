"""node-fleet: a serverless autoscaler for K3s on AWS. This package is exactly what ships to Lambda."""
