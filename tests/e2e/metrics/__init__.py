"""What stands between a real Prometheus and machines that do not exist.

node_exporter   machines that tell how busy they are, where node-exporter would
scraping        the shipped configuration, quicker, with files in place of Kubernetes discovery

One of each for all tests on real series.
"""
