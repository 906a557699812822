package client

import (
	"context"
	"time"
)

// TokenFunc returns a bearer token and the instant when the token expires. The zero instant means that the expiry is unknown.
// The client calls TokenFunc again ten seconds before the token expires, and after an answer 401. Only one goroutine calls
// TokenFunc at a time, with the context of the request that needs the token.
type TokenFunc func(ctx context.Context) (token string, expires time.Time, err error)

// StaticToken returns a TokenFunc for a token that never changes.
func StaticToken(token string) TokenFunc {
	return func(context.Context) (string, time.Time, error) { return token, time.Time{}, nil }
}
