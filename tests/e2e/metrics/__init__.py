"""What stands between a real Prometheus and instances that do not exist.

node_exporter   instances that tell how busy they are, where node-exporter would
scraping        the shipped configuration, quicker, with files in place of Kubernetes discovery

One of each for all tests on real series.
"""
