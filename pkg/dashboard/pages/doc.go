// Package pages makes the pages of the dashboard: it reads what a page shows, and writes the HTML.
//
// Each page reads a bounded number of rows and lists at most some hundred of them; a longer list has a
// next page. Links are relative and all pages are in one folder, so the dashboard works under any path
// of a proxy. It may be imported by pkg/dashboard.
package pages
