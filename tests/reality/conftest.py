"""Nothing here is a test: it needs PyTorch and DeepSpeed, and runs with `make reality`."""

collect_ignore_glob = ["*.py"]
