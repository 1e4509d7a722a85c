"""Demand sources: where the readings of a policy come from.

read        all sources at the same time; queries to Prometheus; which adapter reads which kind of source
port        what an adapter is given and returns; logins
aws         CloudWatch metrics and SQS queues
github      jobs of GitHub Actions
http_json   a number in a JSON document; RabbitMQ, by its management API
redis       lengths in Redis, and of Celery's queues there

`nodefleet.policy.sources` says which four files a new source touches.
"""
