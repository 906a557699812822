package portable_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/portable"
)

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestAFlawHasAPathAndAReason(t *testing.T) {
	t.Parallel()
	tail := func(of string) string {
		advice := "send a smaller number or a string"
		if strings.Contains(of, "pair") {
			advice = "send both halves"
		}
		return ", which some clients cannot read: " + advice + ", or set http.allow_any_json"
	}
	for raw, want := range map[string]string{
		`1e400`:                         "p is 1e400, beyond the range of a double",
		` [1, {"a" : -1.8e308}]`:        "p[1].a is -1.8e308, beyond the range of a double",
		`{"a":{"b":[0,[1],1E999]}}`:     "p.a.b[2] is 1E999, beyond the range of a double",
		`[1e+0309]`:                     "p[0] is 1e+0309, beyond the range of a double",
		`1` + strings.Repeat("0", 309):  "p is 1" + strings.Repeat("0", 76) + "..., beyond the range of a double",
		`"\ud800"`:                      `p has the escape \ud800, half of a surrogate pair`,
		`["","\\\ud83cx"]`:              `p[1] has the escape \ud83c, half of a surrogate pair`,
		`"\ud83c\"\udf89"`:              `p has the escape \ud83c, half of a surrogate pair`,
		`"\uDBFF\u0020"`:                `p has the escape \uDBFF, half of a surrogate pair`,
		`{"x":"\ud83c\udf89\udf89"}`:    `p.x has the escape \udf89, half of a surrogate pair`,
		`{"\ud83c":1}`:                  `a member name in p has the escape \ud83c, half of a surrogate pair`,
		`[0,{"a":{"b":1,"\udfff":2}}]`:  `a member name in p[1].a has the escape \udfff, half of a surrogate pair`,
		`{"a b":[],"":{"\"":"\udc00"}}`: `p[""]["\""] has the escape \udc00, half of a surrogate pair`,
		`{"twice":1,"twice":1e400}`:     "p.twice is 1e400, beyond the range of a double",
	} {
		flaw := portable.Find("p", []byte(raw), nil)
		require.NotNil(t, flaw, "%.60s", raw)
		require.EqualError(t, flaw, want+tail(want), "%.60s", raw)
	}
	for raw, path := range map[string]string{nested(501): "p[0][0]", `{"a":` + nested(499) + `,"b":[` + nested(499) + `]}`: "p.b[0][0]"} {
		flaw := portable.Find("p", []byte(raw), nil)
		require.NotNil(t, flaw)
		require.Equal(t, path, flaw.Path[:len(path)])
		require.Contains(t, flaw.Error(), "... is at level 501 of the nesting, which some clients cannot read: send it with fewer levels, or set http.allow_any_json")
		require.LessOrEqual(t, len(flaw.Error()), 300)
	}
	require.EqualError(t, portable.Find("", []byte(`{"a":[1e400]}`), nil), "a[0] is 1e400, beyond the range of a double"+tail(""))
	require.EqualError(t, portable.Find("", []byte(`1e400`), nil), "the body is 1e400, beyond the range of a double"+tail(""))
}

func TestPortableJSONHasNoFlaw(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"a":[1,-0,1.5e-7,1e308,-1.7976931348623157e308,1e-999,0e999]}`, "1" + strings.Repeat("0", 308), "0." + strings.Repeat("0", 999) + "1",
		`"\ud83c\udf89"`, `"\uD83C\uDF89\ud83c\udf89"`, `"\\ud800"`, `"\\\\ud800"`, `"\"\\"`, `["\"",1,"\\"]`, `"\u0000\ue000\ud7ff"`, `{"\ud83c\udf89":"1e400"}`,
		nested(500), "[" + strings.Repeat(nested(499)+",", 9) + nested(499) + "]", `"` + strings.Repeat("[{", 999) + `"`, `"\"` + strings.Repeat("[", 999) + `"`,
		`{"true":true,"false":false,"null":null}`, "\"\ufeff\u2028🎉\"", `""`, "",
	} {
		require.Nil(t, portable.Find("p", []byte(raw), nil), "%.60s", raw)
	}
}

// Malformed JSON is no matter of this package: it finds an end everywhere.
func TestMalformedJSONIsRead(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`"`, `"\`, `"\"`, `"\u`, `"\ud83`, `"\ud83c`, `"\ud83c\`, `"\ud83c\ud`, `{"a":"\ud83c\udf89`, `1e`, `-`, `1-2`, `]]]]`, `"\uzzzz"`, "\x00\xff\"\xff\\"} {
		for end := range len(raw) + 1 {
			_ = portable.Find("p", []byte(raw[:end]), nil) // it must return
		}
	}
	require.Nil(t, portable.Find("p", []byte(`{"a":x,"b":1e400}`), nil), "the first mistake counts")
}

func TestAnAcceptedFlawDoesNotHideTheNext(t *testing.T) {
	t.Parallel()
	var seen []string
	flaw := portable.Find("", []byte(`{"error":"\ud800","list":["\udc00",1e400,"\udc00"]}`), func(f *portable.Flaw) bool {
		seen = append(seen, fmt.Sprint(f.Path, " ", f.LoneSurrogate))
		return f.LoneSurrogate
	})
	require.Equal(t, "list[1]", flaw.Path)
	require.Equal(t, []string{"error true", "list[0] true", "list[1] false"}, seen)
	require.Nil(t, portable.Find("", []byte(`["\udc00","\ud800"]`), func(*portable.Flaw) bool { return true }))
}

// random writes random JSON with the parts that count, and reports whether a plain reader finds a flaw in it.
func random(r *rand.Rand, b *strings.Builder, depth int) (flawed bool) {
	switch n := r.IntN(9); {
	case n < 2 && depth < 6:
		b.WriteByte("[{"[n])
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			if n == 1 {
				flawed = randomString(r, b) || flawed
				b.WriteString(" :")
			}
			flawed = random(r, b, depth+1) || flawed
		}
		b.WriteByte("]}"[n])
	case n < 6:
		return randomString(r, b)
	case n == 6:
		number := []string{"", "-"}[r.IntN(2)] + strconv.Itoa(1+r.IntN(99)) + []string{"", ".5", strings.Repeat("0", r.IntN(400))}[r.IntN(3)] +
			[]string{"", "e", "E+", "e-0"}[r.IntN(4)]
		if last := number[len(number)-1]; last < '0' || last > '9' || strings.ContainsAny(number, "eE") {
			number += strconv.Itoa(r.IntN(400))
		}
		b.WriteString(number)
		var double float64
		return json.Unmarshal([]byte(number), &double) != nil
	default:
		b.WriteString([]string{"true", "false", "null", " 0 "}[r.IntN(4)])
	}
	return flawed
}

func randomString(r *rand.Rand, b *strings.Builder) (flawed bool) {
	parts := []string{`\\`, `\"`, `x`, `u`, `\n`, "é", `d800`, `\u0041`, `\ud83c`, `\uDF89`, `\ud83c\udf89`, `[`, `1e400`, `\/`}
	var halves []int
	b.WriteByte('"')
	for range r.IntN(6) {
		part := parts[r.IntN(len(parts))]
		b.WriteString(part)
		switch part {
		case `\ud83c`:
			halves = append(halves, 1)
		case `\uDF89`:
			halves = append(halves, 2)
		case `\ud83c\udf89`:
			halves = append(halves, 1, 2)
		default:
			halves = append(halves, 0)
		}
	}
	b.WriteByte('"')
	for i := 0; i < len(halves); i++ {
		switch {
		case halves[i] == 1 && i+1 < len(halves) && halves[i+1] == 2:
			i++
		case halves[i] != 0:
			flawed = true
		}
	}
	return flawed
}

func TestRandomJSONIsJudgedAsByAPlainReader(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	count := map[bool]int{}
	for range 50_000 {
		var b strings.Builder
		flawed := random(r, &b, 0)
		require.True(t, json.Valid([]byte(b.String())), b.String())
		require.Equal(t, flawed, portable.Find("p", []byte(b.String()), nil) != nil, b.String())
		count[flawed]++
	}
	require.Greater(t, min(count[true], count[false]), 5_000)
}

// Many escapes do not make the scan slow: it reads each byte a few times at most. A scan that searched the end of
// the string at each escape would not end.
func TestTheScanIsLinear(t *testing.T) {
	t.Parallel()
	for _, part := range []string{`\n`, `\"`, `\ud83c\udf89`, `\\`} {
		require.Nil(t, portable.Find("p", []byte(`["`+strings.Repeat(part, 8<<20/len(part))+`"]`), nil))
	}
}
