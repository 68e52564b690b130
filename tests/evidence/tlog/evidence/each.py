"""Passes files to the script: each.py SCRIPT VKEY FILE... Prints a line for each: proven, or why it is not."""

import importlib.util
import sys
from pathlib import Path

script, key, *files = sys.argv[1:]
sys.path.insert(0, str(Path(script).parent))
spec = importlib.util.spec_from_file_location("verifier", script)
verifier = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verifier)

for file in files:
    try:
        verifier.verify(Path(file).read_bytes(), key)
        print("proven")
    except verifier.FAILURES as error:
        print("refused:", repr(error)[:200])
