// Package token verifies and creates JSON Web Tokens.
//
// A Verifier turns a token into a principal (pkg/access/identity). It accepts HS256 with one or two shared
// secrets. It accepts RS256, ES256 and EdDSA with a public key or the keys of an identity provider (JWKS).
// The algorithm of a token does not select the kind of key: a shared secret verifies only HS256, and a
// public key verifies only one algorithm. golang-jwt/jwt verifies tokens, and MicahParks/keyfunc fetches keys.
//
// # Keys of an identity provider
//
// The Verifier fetches the keys at the start, and again after each half of auth.jwks_refresh_interval. A token
// with an unknown key id causes an additional fetch, at most one in ten seconds for all tokens. If a fetch
// fails, the known keys stay valid, and a token that needs another key is refused. While no key was ever
// fetched, requests with a token get 503.
//
// # Remembered tokens
//
// The Verifier remembers a verified token by its SHA-256. So it does not verify a signature for each request.
// It forgets the token after the shortest of these times: one minute, half of auth.jwks_refresh_interval, and
// the validity of the token. So a token whose key the provider withdraws is refused within
// auth.jwks_refresh_interval.
package token
