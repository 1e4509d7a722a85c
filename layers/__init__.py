"""What ships to Lambda, made from pinned requirements without Docker: `python -m layers.build`."""
