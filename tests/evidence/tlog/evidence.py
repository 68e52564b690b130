"""Changes single octets of an evidence file: evidence.py SCRIPT FILE VKEY WITNESS STEP.

Each change is found, or the script says the same as before and the file means the same. Prints the number of changes and
of harmless ones.
"""

import importlib.util
import json
import sys
from pathlib import Path

script, file, log, witness, step = sys.argv[1:]
sys.path.insert(0, str(Path(script).parent))
spec = importlib.util.spec_from_file_location("verifier", script)
verifier = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verifier)


def meaning(data: bytes) -> list:
    """Returns the values of a file without the words about its maker."""
    decoder, text, at, values = json.JSONDecoder(), data.decode(), 0, []
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        value.pop("made_by", None)
        values.append(value)
    return values


whole = Path(file).read_bytes()
told, meant = verifier.verify(whole, log, [witness]), meaning(whole)
flips = harmless = 0
for at in range(0, len(whole), int(step)):
    changed = bytearray(whole)
    changed[at] ^= (0x01, 0x20, 0x04, 0x80)[flips % 4]
    flips += 1
    try:
        again = verifier.verify(bytes(changed), log, [witness])
    except verifier.FAILURES:
        continue
    assert again == told, f"octet {at}: {again}"
    assert meaning(bytes(changed)) == meant, f"octet {at}"
    harmless += 1
print(flips, harmless)
