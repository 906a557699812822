// Package provider signs people in to the dashboard with an identity provider.
//
// It uses the authorization code flow of OpenID Connect with PKCE. coreos/go-oidc reads the metadata of the provider and
// verifies ID tokens, and golang.org/x/oauth2 requests tokens. The session of a person has a token of the provider: the
// access token if token.Verifier accepts it, and otherwise the ID token. So the session has the rights and the end of this
// token, and ends when the token is revoked.
//
// The package keeps nothing that another instance needs. The values of a sign-in that has begun, and the refresh token of a
// session, are in cookies of the browser. The cookies are sealed with keys made from auth.client_secret. So any instance can
// finish a sign-in.
//
// The package guarantees:
//
//   - Finish requests a token only for an answer that belongs to a sign-in of the same browser, begun at most flowAge ago.
//   - It refuses an ID token with another issuer, audience or nonce, and an answer of another issuer (RFC 9207).
//   - A refresh never changes the person of a session, and never replaces a token that is revoked.
package provider
