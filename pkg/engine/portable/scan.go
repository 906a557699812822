package portable

import (
	"bytes"
	"strconv"
)

// isNumeric reports for each byte whether a number may have it before and after its exponent.
var isNumeric = func() (of [256]bool) {
	for _, c := range "-+.0123456789" {
		of[c] = true
	}
	return of
}()

// mayHaveFlaw returns false only if raw has no flaw or is malformed.
func mayHaveFlaw(raw []byte) bool {
	depth := 0
	escaped := bytes.IndexByte(raw, '\\') >= 0
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			if i = stringEnd(raw, i+1, escaped); i < 0 {
				return true
			}
		case c >= '0' && c <= '9':
			if i = numberEnd(raw, i); i < 0 {
				return true
			}
		case c == '[', c == '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return false
}

// stringEnd returns the index of the quote that ends the string whose first character is at i. It returns -1 if the
// string has half of a surrogate pair or no end.
func stringEnd(raw []byte, i int, escaped bool) int {
	if !escaped {
		end := bytes.IndexByte(raw[i:], '"')
		if end < 0 {
			return -1
		}
		return i + end
	}
	for i < len(raw) {
		switch raw[i] {
		case '"':
			return i
		case '\\':
			size := escapeSize(raw[i:])
			if size < 0 {
				return -1
			}
			i += size
		default:
			i++
		}
	}
	return -1
}

// escapeLength is the length of an escape such as \ud83c.
const escapeLength = len(`\ud83c`)

// escapeSize returns the length of the escape at the start of b, both halves for a surrogate pair. It returns -1 for
// half of a pair.
func escapeSize(b []byte) int {
	if len(b) < escapeLength || b[1] != 'u' {
		return 2
	}
	switch surrogateHalf(b) {
	case 0:
		return escapeLength
	case 1:
		if rest := b[escapeLength:]; len(rest) >= escapeLength && rest[0] == '\\' && rest[1] == 'u' && surrogateHalf(rest) == 2 {
			return 2 * escapeLength
		}
	}
	return -1
}

// surrogateHalf returns 1 if the escape at the start of b is the first half of a pair, 2 for the second half, and otherwise 0.
func surrogateHalf(b []byte) int {
	if b[2]|0x20 != 'd' {
		return 0
	}
	switch c := b[3] | 0x20; {
	case c == '8' || c == '9' || c == 'a' || c == 'b':
		return 1
	case c >= 'c' && c <= 'f':
		return 2
	}
	return 0
}

// loneSurrogate returns the index of the escape that is half of a pair in a JSON string, or -1.
func loneSurrogate(text []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '\\')
		if n < 0 {
			return -1
		}
		size := escapeSize(text[at+n:])
		if size < 0 {
			return at + n
		}
		at += n + size
	}
}

// numberEnd returns the index of the last byte of the number at i, or -1 if it is beyond the range of a double.
func numberEnd(raw []byte, i int) int {
	end := i + 1
	for end < len(raw) && isNumeric[raw[end]] {
		end++
	}
	if end-i > safeDigits || end < len(raw) && raw[end]|0x20 == 'e' {
		for end++; end < len(raw) && isNumeric[raw[end]]; end++ {
		}
		end = min(end, len(raw))
		if beyondDouble(raw[i:end]) {
			return -1
		}
	}
	return end - 1
}

// A number with at most safeDigits bytes before an exponent of two digits is far from the end of the doubles.
const safeDigits = 200

// beyondDouble reports whether a JSON number is beyond the range of a double. A number near zero is not: it is read
// as zero.
func beyondDouble(number []byte) bool {
	if len(number) <= safeDigits {
		exponent := bytes.IndexByte(number, 'e')
		if exponent < 0 {
			exponent = bytes.IndexByte(number, 'E')
		}
		if exponent < 0 || len(bytes.TrimLeft(number[exponent+1:], "+-0")) <= 2 {
			return false
		}
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return err != nil
}
