// Package dashboard serves the pages for people who operate Belfry, under /ui/.
//
// It is the frame: sessions, headers, actions and the stream of changes. The pages are in the package pages,
// and what they read comes from the package source, which calls the API of the same process. So a session
// sees and does what its token allows, and the audit has every change.
//
// It promises that
//
//   - without a valid token only the sign-in page, the assets and the page of an unknown address are served,
//     if the server needs tokens;
//   - the token is in a cookie that no script can read, and no other site can use;
//   - an open dashboard costs the database nothing while nothing happens.
package dashboard
