"""Verifies the directory of a log with tlog-scales: peer.py DIRECTORY."""

import sys
from pathlib import Path

from tlog_scales import tiles
from tlog_scales.backend import LocalBackend
from tlog_scales.reader import TilesReader
from tlog_scales.signing import Vkey, VkeySet
from tlog_scales.tlog import Checkpoint, ConsistencyProof, InclusionProof
from tlog_scales.utils import b64dec, sha256

directory = Path(sys.argv[1])


def vkey(name: str) -> Vkey:
    key = Vkey.from_string((directory / name).read_text())
    # An id that is not that of the key would be taken as it is.
    assert Vkey(key.name, None, key.sig_type, key.pubkey).key_id == key.key_id, name
    return key


log, witness = vkey("vkey"), vkey("witness.vkey")


def opened(text: str) -> tuple[Checkpoint, int]:
    """Returns a verified checkpoint, and the number of its cosignatures."""
    checkpoint = Checkpoint.from_text(text)
    assert checkpoint.origin == log.name
    checkpoint.verify(log)
    checkpoint.verify(witness)
    verified = VkeySet(log, witness).verify(checkpoint.signatures, checkpoint)
    return checkpoint, len([key for key, _ in verified if key is witness])


reader = TilesReader(LocalBackend(directory))
checkpoint, cosigned = opened((directory / "checkpoint").read_text())
size, root = checkpoint.size, checkpoint.root_hash
assert reader.get_checkpoint().size == size
assert reader.calculate_root_hash() == root, "the tiles have another root"

# The reader trusts tiles; a whole tile is checked against the hash above it.
for level in range(8):
    full, _ = tiles.level_tiles(size, level)
    for number in range(full):
        begin, end = (256 ** (level + 1) * n for n in (number, number + 1))
        hashes = [reader.mth(at, at + 256**level) for at in range(begin, end, 256**level)]
        while len(hashes) > 1:
            hashes = [sha256(b"\x01" + left + right) for left, right in zip(hashes[::2], hashes[1::2])]
        assert hashes == [reader.mth(begin, end)], f"tile {number} of level {level}"

for index in range(size):
    leaf = tiles.leaf_hash(reader.get_entry(index))
    assert leaf == reader.mth(index, index + 1), f"entry {index} has another hash"

proofs = list((directory / "proofs").iterdir())
for file in proofs:
    head, signed = file.read_text().split("\n\n", 1)
    form, index, *path = head.split("\n")
    assert (form, index) == ("c2sp.org/tlog-proof@v1", f"index {file.name}")
    proved, _ = opened(signed)
    proof = InclusionProof(int(file.name), proved.size, [b64dec(line) for line in path])
    proof.check(tiles.leaf_hash(reader.get_entry(int(file.name))), proved.root_hash)
    assert proof == reader.get_inclusion_proof(int(file.name), proved.size), file.name

older = list((directory / "older").glob("*.checkpoint"))
for file in older:
    old, _ = opened(file.read_text())
    lines = file.with_suffix(".consistency").read_text().split()
    proof = ConsistencyProof(old.size, size, [b64dec(line) for line in lines])
    proof.check(old.root_hash, root)
    assert proof == reader.get_consistency_proof(old.size, size), file.name

print(f"size {size}, entries {size}, proofs {len(proofs)}, older {len(older)}, cosigned {cosigned}")
