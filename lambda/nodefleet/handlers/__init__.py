"""What Lambda calls. Each handler is a few lines over `bootstrap`.

reconcile      the schedule, Alertmanager's alerts and operators: one cluster's run
interruption   what EC2 says of its instances
notify         events and alarms to Slack
report         the week in figures
"""
