// Package page is the frame of a page of the dashboard: the request for it, what the caller may do, the
// layout, the templates and their functions, the scripts and the style sheet. The pages themselves are in
// pkg/dashboard/pages.
//
// Links are relative and all pages are in one folder, so the dashboard works under any path of a proxy. It
// may be imported by pkg/dashboard and its packages.
package page
