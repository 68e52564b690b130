// Verifies the directory of a log with golang.org/x/mod/sumdb: peer DIRECTORY.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

var directory = os.Args[1]

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(name string) []byte {
	content, err := os.ReadFile(filepath.Join(directory, name))
	check(err)
	return content
}

// tiles reads tiles by the paths of c2sp.org/tlog-tiles, which leave out the height.
type tiles struct{}

func (tiles) Height() int { return 8 }

func (tiles) ReadTiles(all []tlog.Tile) ([][]byte, error) {
	var contents [][]byte
	for _, tile := range all {
		contents = append(contents, read("tile/"+strings.TrimPrefix(tile.Path(), "tile/8/")))
	}
	return contents, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// open verifies a checkpoint, and returns its tree and the number of signatures of unknown keys.
func open(content []byte, verifier note.Verifier) (tlog.Tree, int) {
	opened, err := note.Open(content, note.VerifierList(verifier))
	check(err)
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() {
		check(fmt.Errorf("no checkpoint: %q", opened.Text))
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	check(err)
	root, err := tlog.ParseHash(lines[2])
	check(err)
	return tlog.Tree{N: size, Hash: root}, len(opened.UnverifiedSigs)
}

func hashes(lines []string) []tlog.Hash {
	var all []tlog.Hash
	for _, line := range lines {
		hash, err := tlog.ParseHash(line)
		check(err)
		all = append(all, hash)
	}
	return all
}

func same(made, given []tlog.Hash, name string) {
	if fmt.Sprint(made) != fmt.Sprint(given) {
		check(fmt.Errorf("%s: another proof than sumdb makes", name))
	}
}

func main() {
	verifier, err := note.NewVerifier(string(read("vkey")))
	check(err)
	tree, unknown := open(read("checkpoint"), verifier)
	reader := tlog.TileHashReader(tree, tiles{})

	// Every entry of every bundle, against the authenticated leaf hashes.
	var entries int64
	for entries < tree.N {
		width := tree.N - entries
		if width > 256 {
			width = 256
		}
		tile := tlog.Tile{H: 8, L: 0, N: entries / 256, W: int(width)}
		bundle := read("tile/entries/" + strings.TrimPrefix(tile.Path(), "tile/8/0/"))
		var indexes []int64
		for n := int64(0); n < width; n++ {
			indexes = append(indexes, tlog.StoredHashIndex(0, entries+n))
		}
		leaves, err := reader.ReadHashes(indexes)
		check(err)
		for _, leaf := range leaves {
			length := int(binary.BigEndian.Uint16(bundle))
			if tlog.RecordHash(bundle[2:2+length]) != leaf {
				check(fmt.Errorf("entry %d has another hash", entries))
			}
			bundle = bundle[2+length:]
			entries++
		}
		if len(bundle) != 0 {
			check(fmt.Errorf("%s: octets behind the last entry", tile.Path()))
		}
	}

	names, err := filepath.Glob(filepath.Join(directory, "proofs", "*"))
	check(err)
	for _, name := range names {
		index, err := strconv.ParseInt(filepath.Base(name), 10, 64)
		check(err)
		parts := strings.SplitN(string(read("proofs/"+filepath.Base(name))), "\n\n", 2)
		lines := strings.Split(parts[0], "\n")
		if lines[0] != "c2sp.org/tlog-proof@v1" || lines[1] != fmt.Sprintf("index %d", index) {
			check(fmt.Errorf("%s: not a proof", name))
		}
		proved, _ := open([]byte(parts[1]), verifier)
		leaf, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, index)})
		check(err)
		path := hashes(lines[2:])
		check(tlog.CheckRecord(path, proved.N, proved.Hash, index, leaf[0]))
		made, err := tlog.ProveRecord(tree.N, index, reader)
		check(err)
		same(made, path, name)
	}

	older, err := filepath.Glob(filepath.Join(directory, "older", "*.checkpoint"))
	check(err)
	for _, name := range older {
		stem := "older/" + strings.TrimSuffix(filepath.Base(name), ".checkpoint")
		old, _ := open(read(stem+".checkpoint"), verifier)
		path := hashes(strings.Fields(string(read(stem + ".consistency"))))
		check(tlog.CheckTree(path, tree.N, tree.Hash, old.N, old.Hash))
		made, err := tlog.ProveTree(tree.N, old.N, reader)
		check(err)
		same(made, path, name)
	}

	// The key of a witness is of a kind that this version of sumdb does not know. Its line must not disturb.
	if unknown != 1 {
		check(fmt.Errorf("%d unknown signatures", unknown))
	}
	fmt.Printf("size %d, entries %d, proofs %d, older %d, cosigned %d\n", tree.N, entries, len(names), len(older), unknown)
}
