// Package principals makes the tokens of a chaos run. The servers verify the tokens with Secret. The tokens of the
// workload have no expiry times, because faults change the clocks of servers.
package principals

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Secret is the secret of the tokens that the servers accept.
const Secret = "the secret of the servers of a chaos run"

// Mark is part of everything that an intruder sends. The servers must never store it.
const Mark = "intruder"

// prefix is the pattern of all queues of a run.
const prefix = "chaos.*"

// These tokens belong to the workload. The operator is not limited to queues.
var (
	Producer = token(Secret, jwt.MapClaims{"sub": "producer", "role": "read-write", "belfry": map[string][]string{"push": {prefix}}})
	Consumer = token(Secret, jwt.MapClaims{"sub": "consumer", "role": "read-write", "belfry": map[string][]string{"push": {prefix}, "consume": {prefix}}})
	Operator = token(Secret, jwt.MapClaims{"sub": "operator", "role": "admin"})
)

// Tenant may do everything with queues that the workload does not use.
var Tenant = token(Secret, jwt.MapClaims{"sub": "tenant", "role": "admin", "belfry": map[string][]string{
	"read": {"tenant.*"}, "push": {"tenant.*"}, "consume": {"tenant.*"}, "admin": {"tenant.*"},
}})

// Reader may read everything and change nothing.
var Reader = token(Secret, jwt.MapClaims{"sub": "reader", "role": "read-only"})

// Refused has values of the header Authorization that no server accepts.
var Refused = refused()

func refused() []string {
	admin := jwt.MapClaims{"sub": Mark, "role": "admin"}
	parts := strings.Split(Operator, ".")
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, admin).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		panic(err) // an unsigned token can always be written
	}
	return []string{
		"", "Bearer", "Basic b3BlcmF0b3I6", "nonsense", "Bearer a.b.c", parts[0] + "." + parts[1] + ".", Producer[:len(Producer)-2],
		parts[0] + "." + strings.Split(Tenant, ".")[1] + "." + parts[2], unsigned,
		token("the secret of somebody else, who is not known", admin),
		token(Secret, jwt.MapClaims{"sub": Mark, "role": "admin", "exp": 1}),
		token(Secret, jwt.MapClaims{"sub": Mark, "role": "admin", "belfry": []string{"*"}}),
	}
}

func token(secret string, claims jwt.MapClaims) string {
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	if err != nil {
		panic(fmt.Errorf("signing a token: %w", err)) // HS256 can sign all claims
	}
	return text
}

// Transport returns a transport that adds a token to requests without the header Authorization.
func Transport(token string, base *http.Transport) http.RoundTripper { return transport{base, token} }

type transport struct {
	*http.Transport
	token string
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, has := r.Header["Authorization"]; !has {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.Transport.RoundTrip(r)
}
