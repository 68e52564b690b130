"""The parts of verify-evidence.py, which stands beside this folder."""
