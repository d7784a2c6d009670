// SPDX-License-Identifier: Apache-2.0

// A verifier of grains in Go, written from docs/design.md, with the standard library alone.
//
//	go run examples/verifier.go test_vectors
//	go run examples/verifier.go grain.mg ADDRESS
//
// It checks the header, the canonical MessagePack and the address of a blob. It has no table of
// fields and no Unicode tables, so it leaves the rules of fields and NFC to others, and it does not
// read CBOR, compressed or encrypted payloads.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	headerSize = 9
	maxBlob    = 1 << 20
	maxDepth   = 32
	notRead    = "not read"
)

// Problem is why a blob is refused: a code of docs/errors.md, a reason, and the byte.
type Problem struct {
	Code, Reason string
	At           int
}

func (p *Problem) Error() string { return fmt.Sprintf("%s: %s (byte %d)", p.Code, p.Reason, p.At) }

// Reader reads canonical MessagePack. Its methods panic with a *Problem; Verify recovers it.
type Reader struct {
	data []byte
	at   int
}

func (r *Reader) fail(code, reason string) { panic(&Problem{code, reason, r.at}) }

func (r *Reader) take(n uint64) []byte {
	if n > uint64(len(r.data)-r.at) {
		r.fail("ERR_CORRUPT", "the payload is cut short")
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at]
}

// uint reads a big-endian number of so many bytes, and refuses one that a shorter form could hold.
func (r *Reader) uint(size int, least uint64) uint64 {
	var n uint64
	for _, b := range r.take(uint64(size)) {
		n = n<<8 | uint64(b)
	}
	if n < least {
		r.fail("ERR_CORRUPT", "not the shortest form")
	}
	return n
}

func (r *Reader) text(n uint64) string {
	raw := r.take(n)
	if !utf8.Valid(raw) {
		r.fail("ERR_CORRUPT", "not UTF-8")
	}
	if bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")) {
		r.fail("ERR_CORRUPT", "a byte order mark at the start of a text")
	}
	return string(raw)
}

// signed reads a negative number that no shorter form could hold.
func (r *Reader) signed(size int) int64 {
	n := int64(r.uint(size, 0)) << (64 - 8*size) >> (64 - 8*size)
	limits := map[int]int64{1: -32, 2: math.MinInt8, 4: math.MinInt16, 8: math.MinInt32}
	if n >= limits[size] {
		r.fail("ERR_CORRUPT", "not the shortest form")
	}
	return n
}

// Value reads one value: nil, bool, uint64, int64, float64, string, []byte, []any or map[string]any.
func (r *Reader) value(depth int) any {
	switch head := r.take(1)[0]; {
	case head < 0x80:
		return uint64(head)
	case head >= 0xe0:
		return int64(int8(head))
	case head < 0x90:
		return r.pairs(uint64(head&15), depth)
	case head < 0xa0:
		return r.items(uint64(head&15), depth)
	case head < 0xc0:
		return r.text(uint64(head & 31))
	case head == 0xc0:
		return nil
	case head == 0xc2 || head == 0xc3:
		return head == 0xc3
	case head == 0xc4:
		return r.take(r.uint(1, 0))
	case head == 0xc5:
		return r.take(r.uint(2, 1<<8))
	case head == 0xc6:
		return r.take(r.uint(4, 1<<16))
	case head == 0xcb:
		number := math.Float64frombits(r.uint(8, 0))
		if math.IsNaN(number) || math.IsInf(number, 0) {
			r.fail("ERR_FLOAT_INVALID", "NaN or an infinity")
		}
		return number
	case head == 0xcc:
		return r.uint(1, 1<<7)
	case head == 0xcd:
		return r.uint(2, 1<<8)
	case head == 0xce:
		return r.uint(4, 1<<16)
	case head == 0xcf:
		return r.uint(8, 1<<32)
	case head >= 0xd0 && head <= 0xd3:
		return r.signed(1 << (head - 0xd0))
	case head == 0xd9:
		return r.text(r.uint(1, 32))
	case head == 0xda:
		return r.text(r.uint(2, 1<<8))
	case head == 0xdb:
		return r.text(r.uint(4, 1<<16))
	case head == 0xdc:
		return r.items(r.uint(2, 16), depth)
	case head == 0xdd:
		return r.items(r.uint(4, 1<<16), depth)
	case head == 0xde:
		return r.pairs(r.uint(2, 16), depth)
	case head == 0xdf:
		return r.pairs(r.uint(4, 1<<16), depth)
	}
	r.fail("ERR_CORRUPT", "a form that canonical MessagePack does not have")
	return nil
}

// enter refuses a container that is too deep, or that claims more values than bytes are left.
func (r *Reader) enter(values uint64, depth int) {
	if depth >= maxDepth {
		r.fail("ERR_CORRUPT", "a container too deep")
	}
	if values > uint64(len(r.data)-r.at) {
		r.fail("ERR_CORRUPT", "the payload is cut short")
	}
}

func (r *Reader) items(n uint64, depth int) []any {
	r.enter(n, depth)
	list := make([]any, 0, n)
	for ; n > 0; n-- {
		list = append(list, r.value(depth+1))
	}
	return list
}

func (r *Reader) pairs(n uint64, depth int) map[string]any {
	r.enter(2*n, depth)
	found := make(map[string]any, n)
	last := ""
	for i := uint64(0); i < n; i++ {
		key, isText := r.value(depth + 1).(string)
		if !isText {
			r.fail("ERR_CORRUPT", "a key that is not a text")
		}
		if i > 0 && key <= last { // compares bytes
			r.fail("ERR_CORRUPT", "keys out of order, or one twice")
		}
		last = key
		if found[key] = r.value(depth + 1); found[key] == nil {
			r.fail("ERR_CORRUPT", "null as the value of a key")
		}
	}
	return found
}

var typeBytes = map[string]byte{
	"belief": 1, "fact": 1, "event": 2, "episode": 2, "state": 3, "checkpoint": 3, "workflow": 4,
	"action": 5, "tool_call": 5, "tool": 5, "observation": 6, "goal": 7, "reasoning": 8,
	"consensus": 9, "consent": 10,
}

// checkHeader compares the header with the payload, which is the truth.
func checkHeader(blob []byte, payload map[string]any) *Problem {
	opaque := blob[2] > 10
	name, named := payload["t"].(string)
	known := typeBytes[name]
	switch {
	case !opaque && payload["t"] == nil:
		return &Problem{"ERR_NO_TYPE", "no type", headerSize}
	case !opaque && (!named || known == 0):
		return &Problem{"ERR_UNKNOWN_TYPE", "not a type of OMS 1.2", headerSize}
	case known != 0 && known != blob[2]:
		return &Problem{"ERR_CORRUPT", "the type byte differs from the payload", 2}
	}
	namespace, _ := payload["ns"].(string)
	hash := sha256.Sum256([]byte(namespace))
	found := [2]byte{blob[3], blob[4]}
	shared := sha256.Sum256([]byte("shared"))
	none := namespace == "" && (found == [2]byte{} || found == [2]byte{shared[0], shared[1]})
	if found != [2]byte{hash[0], hash[1]} && !none {
		return &Problem{"ERR_CORRUPT", "ns_hash differs from the payload", 3}
	}
	created, _ := payload["ca"].(uint64)
	_, negative := payload["ca"].(int64)
	if seconds := created / 1000; negative || seconds > math.MaxUint32 {
		if !opaque {
			return &Problem{"ERR_RANGE", "created_at is not between 1970 and 2106", headerSize}
		}
	} else if binary.BigEndian.Uint32(blob[5:]) != uint32(seconds) {
		return &Problem{"ERR_CORRUPT", "created_at differs from the payload", 5}
	}
	for bit, key := range map[byte]string{3: "cr", 4: "er"} {
		list, _ := payload[key].([]any)
		if (blob[1]>>bit&1 == 1) != (len(list) > 0) {
			return &Problem{"ERR_CORRUPT", "a flag differs from the payload", 1}
		}
	}
	return nil
}

// Verify checks a blob, and its address unless that is "". It returns nil for a good one.
func Verify(blob []byte, address string) (problem *Problem) {
	defer func() {
		if raised := recover(); raised != nil {
			found, ours := raised.(*Problem)
			if !ours {
				panic(raised)
			}
			problem = found
		}
	}()
	switch {
	case address != "" && len(address) != 64:
		return &Problem{"ERR_HASH_LENGTH", "an address has 64 characters", 0}
	case strings.Trim(address, "0123456789abcdef") != "":
		return &Problem{"ERR_HASH_FORMAT", "an address has the characters 0-9 and a-f", 0}
	case len(blob) <= headerSize:
		return &Problem{"ERR_TOO_SHORT", "fewer than 10 bytes", len(blob)}
	case len(blob) > maxBlob:
		return &Problem{"ERR_TOO_LARGE", "more than 1 MiB", maxBlob}
	case blob[0] != 1:
		return &Problem{"ERR_VERSION", "the first byte is not 1", 0}
	case address != "" && fmt.Sprintf("%x", sha256.Sum256(blob)) != address:
		return &Problem{"ERR_INTEGRITY", "another address", 0}
	case blob[1]&0b100110 != 0:
		return &Problem{notRead, "a compressed, encrypted or CBOR payload", 1}
	case blob[1]&1 != 0:
		return &Problem{"ERR_SIGNED_MISMATCH", "a signed bit without an envelope", 1}
	case blob[2] == 0:
		return &Problem{"ERR_UNKNOWN_TYPE", "type byte 0", 2}
	}
	reader := &Reader{data: blob, at: headerSize}
	if head := blob[headerSize]; head>>4 != 8 && head != 0xde && head != 0xdf {
		return &Problem{"ERR_NOT_MAP", "the payload is not a map", headerSize}
	}
	payload := reader.value(0).(map[string]any)
	if reader.at != len(blob) {
		reader.fail("ERR_CORRUPT", "bytes behind the payload")
	}
	return checkHeader(blob, payload)
}

// vector is a file of test_vectors, as far as this program needs it.
type vector struct {
	ID     string
	Kind   string // of vectors about the bytes around grains
	Blob   string `json:"blob_hex"`
	Stages struct {
		Blob string `json:"blob_hex"`
	}
	Address string
	Expect  string `json:"expect_error"`
}

// run tries every vector below a directory and returns how many agree, need tables, or disagree.
func run(root string) (agree, tables, unread, wrong int) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var one vector
		if err := json.Unmarshal(text, &one); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		raw := one.Blob + one.Stages.Blob
		if raw == "" || one.Kind != "" {
			return nil // not a vector of one grain
		}
		blob, err := hex.DecodeString(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		code := ""
		if problem := Verify(blob, one.Address); problem != nil {
			code = problem.Code
		}
		switch {
		case code == notRead:
			unread++
		case code == one.Expect:
			agree++
		case code == "": // a rule of fields or of Unicode, which needs their tables
			tables++
		default:
			wrong++
			fmt.Printf("%s: expected %q, found %q\n", one.ID, one.Expect, code)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return
}

func main() {
	if len(os.Args) == 2 {
		agree, tables, unread, wrong := run(os.Args[1])
		fmt.Printf("%d agree, %d need tables, %d not read, %d wrong\n", agree, tables, unread, wrong)
		if wrong > 0 {
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: verifier VECTORS | verifier FILE ADDRESS")
		os.Exit(2)
	}
	blob, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if problem := Verify(blob, os.Args[2]); problem != nil {
		fmt.Println(problem)
		os.Exit(1)
	}
	fmt.Println("verified")
}
