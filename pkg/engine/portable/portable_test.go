package portable_test

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/portable"
)

var none = &portable.Rules{}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestAFlawHasAPathAndAReason(t *testing.T) {
	tail := func(text string) string {
		advice := "send a smaller number or a string"
		if strings.Contains(text, "pair") {
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
		flaw := none.Find("p", []byte(raw))
		require.NotNil(t, flaw, "%.60s", raw)
		require.EqualError(t, flaw, want+tail(want), "%.60s", raw)
	}
	for raw, path := range map[string]string{nested(501): "p[0][0]", `{"a":` + nested(499) + `,"b":[` + nested(499) + `]}`: "p.b[0][0]"} {
		flaw := none.Find("p", []byte(raw))
		require.NotNil(t, flaw)
		require.Equal(t, path, flaw.Error()[:len(path)])
		require.Contains(t, flaw.Error(), "... is at level 501 of the nesting, which some clients cannot read: send it with fewer levels, or set http.allow_any_json")
		require.LessOrEqual(t, len(flaw.Error()), 300)
	}
	require.EqualError(t, none.Find("", []byte(`{"a":[1e400]}`)), "a[0] is 1e400, beyond the range of a double"+tail(""))
	require.EqualError(t, none.Find("", []byte(`1e400`)), "the body is 1e400, beyond the range of a double"+tail(""))
}

func TestPortableJSONHasNoFlaw(t *testing.T) {
	for _, raw := range []string{
		`{"a":[1,-0,1.5e-7,1e308,-1.7976931348623157e308,1e-999,0e999]}`, "1" + strings.Repeat("0", 308), "0." + strings.Repeat("0", 999) + "1",
		`"\ud83c\udf89"`, `"\uD83C\uDF89\ud83c\udf89"`, `"\\ud800"`, `"\\\\ud800"`, `"\"\\"`, `["\"",1,"\\"]`, `"\u0000\ue000\ud7ff"`, `{"\ud83c\udf89":"1e400"}`,
		nested(500), "[" + strings.Repeat(nested(499)+",", 9) + nested(499) + "]", `"` + strings.Repeat("[{", 999) + `"`, `"\"` + strings.Repeat("[", 999) + `"`,
		`{"true":true,"false":false,"null":null}`, "\"\ufeff\u2028🎉\"", `""`, "",
	} {
		require.Nil(t, none.Find("p", []byte(raw)), "%.60s", raw)
	}
}

// The package does not report malformed JSON. Find ends, without a panic, for each truncated text.
func TestMalformedJSONIsRead(t *testing.T) {
	for _, raw := range []string{`"`, `"\`, `"\"`, `"\u`, `"\ud83`, `"\ud83c`, `"\ud83c\`, `"\ud83c\ud`, `{"a":"\ud83c\udf89`, `1e`, `-`, `1-2`, `]]]]`, `"\uzzzz"`, "\x00\xff\"\xff\\"} {
		for end := range len(raw) + 1 {
			_ = none.Find("p", []byte(raw[:end])) // it must end
		}
	}
	require.Nil(t, none.Find("p", []byte(`{"a":x,"b":1e400}`)), "Find stops at the first syntax error")
}

// Inside a path of Values, nesting is counted from the value at the path. Elsewhere it is counted from the body. With Any,
// the body may have every flaw up to MaxAnyDepth levels, but half of a surrogate pair is still allowed only in Values and
// Texts.
func TestRulesAllowFlawsByPath(t *testing.T) {
	rules := portable.Rules{Values: []string{"data", "items[].payload", "a[].b[].c"}, Texts: []string{"error", "acks[].error"}}
	anything := rules
	anything.Any = true
	const both, strict, never = "both", "strict", "never"
	for raw, refused := range map[string]string{
		`{"data":` + nested(500) + `}`:                                              never,
		`{"data":` + nested(501) + `}`:                                              strict,
		`{"items":[1,{"payload":` + nested(500) + `,"x":[]}]}`:                      never,
		`{"items":[1,{"payload":` + nested(501) + `}]}`:                             strict,
		`{"items":[{"p\u0061yload":` + nested(500) + `}]}`:                          never,
		`{"a":[{"b":[{"c":` + nested(500) + `}]}]}`:                                 never,
		`{"a":[{"b":[{"c":` + nested(9990) + `}]}]}`:                                strict,
		`{"a":[{"b":[{"c":` + nested(9991) + `}]}]}`:                                both,
		`{"data":` + nested(9991) + `}`:                                             both,
		`{"other":` + nested(499) + `}`:                                             never,
		`{"other":` + nested(500) + `}`:                                             strict,
		`{"data":{"other":{}},"other":` + nested(500) + `}`:                         strict,
		`{"data":1e400,"items":[{"payload":1e400}]}`:                                strict,
		`{"other":1e400}`:                                                           strict,
		`{"error":"\ud800"}`:                                                        never,
		`{"acks":[{},{"error":"\ud800"}]}`:                                          never,
		`{"acks":[{"error":{"error":"\ud800"}}]}`:                                   both,
		`{"error":{"\ud800":1}}`:                                                    both,
		`{"error":"\ud800","acks":["\udc00",1e400,"\udc00"]}`:                       both,
		`{"data":"\ud800","items":[{"payload":{"\ud800":["\ud800"]}}]}`:             strict,
		`{"items":[{"payload":{"x":"\ud800"},"queue":"\ud800"}]}`:                   both,
		`{"items":[{"queue":"\ud800"}]}`:                                            both,
		`{"\ud800":1}`:                                                              both,
		`{"data":1,"` + strings.Repeat("x", 99) + `":["\ud800"],"data":["\ud800"]}`: both,
	} {
		require.Equal(t, refused != never, rules.Find("", []byte(raw)) != nil, "%.80s", raw)
		flaw := anything.Find("", []byte(raw))
		require.Equal(t, refused == both, flaw != nil, "%.80s", raw)
		if flaw != nil {
			require.NotContains(t, flaw.Error(), "http.allow_any_json")
		}
	}
	require.Nil(t, (&portable.Rules{Any: true}).Find("p", []byte(`["\ud800",{"\ud800":1e400}]`)))
}

// random writes random JSON with numbers, escapes and nesting, and reports whether it contains a flaw.
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

func TestFindAgreesWithTheGeneratorOfRandomJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	count := map[bool]int{}
	for range 50_000 {
		var b strings.Builder
		flawed := random(r, &b, 0)
		require.True(t, json.Valid([]byte(b.String())), b.String())
		require.Equal(t, flawed, none.Find("p", []byte(b.String())) != nil, b.String())
		count[flawed]++
	}
	require.Greater(t, min(count[true], count[false]), 5_000)
}

// Many escapes do not make the scan slow, because it reads each byte at most a few times. A scan that searches
// the end of the string at each escape would exceed the timeout of the test.
func TestTheScanIsLinear(t *testing.T) {
	for _, part := range []string{`\n`, `\"`, `\ud83c\udf89`, `\\`} {
		require.Nil(t, none.Find("p", []byte(`["`+strings.Repeat(part, 8<<20/len(part))+`"]`)))
	}
}
