// Package token verifies and makes JSON Web Tokens.
//
// A Verifier turns a token into a principal (pkg/access/identity). It accepts HS256 with one or two shared
// secrets, and RS256, ES256 and EdDSA with a public key or the keys of an identity provider (JWKS). The
// algorithm of a token never chooses the kind of key: a shared secret verifies HS256 only, and a public
// key only its own algorithm. golang-jwt/jwt verifies, and MicahParks/keyfunc fetches keys.
//
// # Keys of an identity provider
//
// They are fetched at the start and every half of auth.jwks_refresh_interval. A token with an unknown key
// id causes one more fetch, at most every ten seconds for all such tokens. A fetch that fails changes
// nothing: known keys stay valid, and a token that needs another key is refused. Without any key yet,
// tokens get 503.
//
// # Remembered tokens
//
// A verified token is remembered by its SHA-256 for at most a minute, half of auth.jwks_refresh_interval,
// and its own validity. So a key that the provider withdraws is refused within that interval, and a
// signature is not verified for each request.
package token
