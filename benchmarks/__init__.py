"""What the library costs: `python -m benchmarks.run`."""
