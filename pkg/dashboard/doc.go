// Package dashboard serves the pages for people who operate Belfry, under /ui/.
//
// The package has sessions, headers, actions and the stream of changes. The pages are in the package pages.
// They read and change data through the package source, which calls the HTTP API of the same process with the
// token of the session. So the API checks the rights of each request, and the audit has every change.
//
// The package guarantees:
//
//   - If the server requires tokens, a request without a valid token gets only the sign-in page, the assets and
//     the page for an unknown address.
//   - The token is in a cookie. Scripts cannot read the cookie, and other sites cannot use it.
//   - While nothing changes, an open page causes no query.
package dashboard
