package identity_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
)

func parse(t *testing.T, claim string) (*identity.Grants, error) {
	t.Helper()
	var decoded any
	require.NoError(t, json.Unmarshal([]byte(claim), &decoded))
	return identity.ParseGrants(decoded)
}

// Each list allows only the queues and groups that it names. A missing list allows nothing.
func TestGrantsAllowWhatTheyName(t *testing.T) {
	t.Parallel()
	g, err := parse(t, `{"read": ["r.*"], "push": ["p"], "consume": ["c.*:g*", "d", "a:b:*"], "admin": ["x.*"]}`)
	require.NoError(t, err)
	for name, want := range map[string][4]bool{ // read, push, consume as g1, administer
		"r.1": {true, false, false, false}, "p": {false, true, false, false}, "p.1": {}, "c.1": {false, false, true, false},
		"d": {false, false, true, false}, "a:b": {false, false, true, false}, "a": {}, "x.1": {true, true, true, true}, "": {},
	} {
		require.Equal(t, want, [4]bool{g.MayRead(name), g.MayPush(name), g.MayConsume(name, "g1"), g.MayAdminister(name)}, name)
	}
	require.False(t, g.MayConsume("c.1", "h"))
	require.Equal(t, []string{"r.*", "x.*"}, g.Readable())
	require.Equal(t, []string{"x.*", "d", "a:b"}, g.Consumable("h"))
	require.Equal(t, []string{"x.*"}, g.Administrable())

	nothing, err := parse(t, `{}`)
	require.NoError(t, err)
	require.False(t, nothing.MayRead("r") || nothing.MayPush("r") || nothing.MayConsume("r", "g") || nothing.MayAdminister("r"))
	require.NotNil(t, nothing.Readable(), "nil would mean every queue")
	require.NotNil(t, nothing.Consumable("g"))
	require.NotNil(t, nothing.Administrable())

	var unlimited *identity.Grants
	require.True(t, unlimited.MayRead("r") && unlimited.MayPush("r") && unlimited.MayConsume("r", "g") && unlimited.MayAdminister("r"))
	require.Nil(t, unlimited.Readable())
}

func TestAnInvalidClaimIsAnError(t *testing.T) {
	t.Parallel()
	for _, claim := range []string{
		`null`, `[]`, `"a.*"`, `{"push": "a"}`, `{"push": [1]}`, `{"push": null}`, `{"Push": ["a"]}`, `{"push": [""]}`, `{"consume": ["a:"]}`,
		`{"consume": [":g"]}`, `{"push": ["a\u0000"]}`,
	} {
		_, err := parse(t, claim)
		require.Error(t, err, claim)
	}
}

// If grants are read from a claim and written as a claim, the new claim allows the same.
func FuzzParseGrants(f *testing.F) {
	f.Add(`{"read": ["*"], "push": ["a"], "consume": ["a:b"], "admin": ["a*b*"]}`, "a", "b")
	f.Fuzz(func(t *testing.T, claim, name, group string) {
		var decoded any
		if json.Unmarshal([]byte(claim), &decoded) != nil {
			return
		}
		g, err := identity.ParseGrants(decoded)
		if err != nil {
			return
		}
		written, err := json.Marshal(g)
		require.NoError(t, err)
		again, err := parse(t, string(written))
		require.NoError(t, err)
		require.Equal(t, g.MayRead(name), again.MayRead(name))
		require.Equal(t, g.MayPush(name), again.MayPush(name))
		require.Equal(t, g.MayConsume(name, group), again.MayConsume(name, group))
		require.Equal(t, g.MayAdminister(name), again.MayAdminister(name))
	})
}
